import type { Database } from '../kernel/database/database.js'
import type { Statement } from '../kernel/database/executor.js'
import { callQueue } from './call.js'
import { checkMessageId } from './message.js'

const deleteStatement = {
  name: 'queue.delete',
  text: 'select id::text as "messageId" from pgmq.delete($1::text, $2::bigint[]) as id order by id',
}

const archiveStatement = {
  name: 'queue.archive',
  text: 'select id::text as "messageId" from pgmq.archive($1::text, $2::bigint[]) as id order by id',
}

/** For one message whether it existed; for many those that existed. */
export interface Removal {
  (name: string, messageId: string): Promise<boolean>
  (name: string, messageIds: readonly string[]): Promise<string[]>
}

/** The part of the client that takes messages out of a queue. */
export function createRemoving(db: Database): { readonly delete: Removal; readonly archive: Removal } {
  return { delete: removal(db, 'delete', deleteStatement), archive: removal(db, 'archive', archiveStatement) }
}

function removal(db: Database, where: string, statement: Statement): Removal {
  function remove(name: string, messageId: string): Promise<boolean>
  function remove(name: string, messageIds: readonly string[]): Promise<string[]>
  async function remove(name: string, ids: string | readonly string[]): Promise<boolean | string[]> {
    const given: readonly string[] = typeof ids === 'object' ? ids : [ids]
    const checked = given.map((id) => checkMessageId(where, id))
    const removed = await callQueue<{ messageId: string }>(db, name, statement, checked)
    return typeof ids === 'object' ? removed.map(({ messageId }) => messageId) : removed.length > 0
  }
  return remove
}
