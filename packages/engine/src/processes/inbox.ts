// The inbox holds responses that come from a caller's transaction, from another language or from an ended child.
// Workers claim its rows and deliver each response to its process. A response must reach its process once, in the order
// in which the responses were committed, also if a worker dies in between.

import type { Notes } from '../kernel/codec/notes.js'
import { HoldfastError } from '../kernel/errors.js'
import { isId } from '../kernel/ids/id.js'
import { splitName } from '../kernel/ids/name.js'
import {
  type Claimed,
  claimParams,
  type Database,
  type Executor,
  leasesOfTable,
  type Runtime,
  type WorkSource,
} from '../kernel/model/index.js'
import { parseWith } from '../kernel/validation/schema.js'
import type { DefinedProcess } from './define.js'
import { findIdByKey } from './queries/find-id-by-key.js'
import type { ResponseWrite } from './queries/respond-processes.js'
import { unknownResponse } from './refused.js'
import type { Respond } from './respond.js'

/** Responses of one process in the order in which they were committed; the first one carries the lease. */
export interface InboxGroup extends Claimed {
  readonly responses: readonly InboxResponse[]
}

/** A response in the inbox: from a caller's transaction, another language, or an ended child. */
interface InboxResponse {
  readonly id: string
  /** The process's id or key. */
  readonly reference: string
  readonly name: string
  readonly responseId: string
  readonly data: unknown
  readonly notes: Notes | null
  readonly checked: boolean
  readonly ageMs: number
}

/** A response may overtake the start of its process, which is in a transaction that has not committed yet. */
const PATIENCE = 60_000
const LOOK_AGAIN = 1_000

export function inboxSource(db: Executor, definitions: () => readonly DefinedProcess[]): WorkSource<InboxGroup> {
  const types = () => definitions().map(({ name }) => name)
  return {
    model: 'process-inbox',
    types,
    async claim(request) {
      const [row] = await db.run<ClaimRow>(claimStatement, [
        request.lanes.map(({ type }) => type),
        request.lanes.map(({ from }) => from),
        ...claimParams(request),
      ])
      return { items: row?.items ?? [], marks: row?.marks ?? [], nextDueMs: row?.next_due_ms ?? null }
    },
    ...leasesOfTable(db, { model: 'process-inbox', name: 'inbox', key: 'uuid', lanes: types }),
  }
}

interface InboxParts extends Pick<Runtime, 'codec' | 'logger' | 'metrics'> {
  readonly find: (name: string) => DefinedProcess | undefined
  readonly respond: Respond
}

/** What could not be delivered; audited and removed. */
interface Refused {
  readonly id: string
  readonly process_id: string | null
  readonly code: string
  readonly message: string
}

/**
 * Delivers the responses of one process: checks those that are not checked yet, records them in order under their response ids,
 * and removes them. After a kill between the last two they are still recorded once. What cannot be delivered is audited and
 * removed, so that nothing waits behind it.
 */
export function handOver(db: Database, { find, respond, codec, logger, metrics }: InboxParts) {
  return async function run({ id: head, epoch, type, responses }: InboxGroup): Promise<void> {
    const definition = find(type)
    if (!definition) return
    const refused: Refused[] = []
    const refuse = ({ id, reference, name }: InboxResponse, error: HoldfastError, process: string | undefined) => {
      const of = { model: 'processes', ...splitName(type) } as const
      const about = { ...of, id: process, process: reference, response: name, code: error.code, err: error }
      logger.warn(about, `the response ${name} to ${reference} of ${type} was not delivered: ${error.message}`)
      metrics.count('responses_refused', of)
      refused.push({ id, process_id: process ?? null, code: error.code, message: error.message })
    }
    const finish = async (handed: readonly InboxResponse[], againMs: number) => {
      await db.run(doneStatement, [head, epoch, handed.map(({ id }) => id), JSON.stringify(refused), againMs])
    }
    const first = responses[0]?.reference ?? ''
    let id = isId(first) ? first.toLowerCase() : undefined
    const writes: ResponseWrite[] = []
    const handed: InboxResponse[] = []
    try {
      id ??= await findIdByKey(db, type, first)
      for (const response of responses) {
        const { name, responseId } = response
        try {
          const { json, notes } = await encodeResponse(definition, response)
          writes.push({ id, type, name, responseId, json, notes })
          handed.push(response)
        } catch (error) {
          if (!isRefusal(error)) throw error
          refuse(response, error, id)
        }
      }
      if (writes.length > 0) await respond.recordInOrder(definition, writes)
      await finish(handed, 0)
    } catch (error) {
      if (!isRefusal(error)) throw error
      // None of them was recorded.
      const patient = error.code === 'HF_NOT_FOUND' && responses.some(({ ageMs }) => ageMs < PATIENCE)
      if (patient) {
        refused.length = 0
        await finish([], LOOK_AGAIN)
        return
      }
      for (const response of handed.length > 0 ? handed : responses) refuse(response, error, id)
      await finish([], 0)
    }
  }

  async function encodeResponse(definition: DefinedProcess, response: InboxResponse) {
    if (response.checked) return { json: JSON.stringify(response.data), notes: response.notes }
    const known = definition.responses.get(response.name)
    if (!known) throw unknownResponse(definition.name, response.name)
    const data = await parseWith(known.data, response.data, `respond ${definition.name}: ${response.name}`)
    const { json, notes } = codec.encode(data, { at: response.name })
    return { json, notes }
  }
}

function isRefusal(error: unknown): error is HoldfastError {
  return error instanceof HoldfastError && error.status < 500
}

interface ClaimRow {
  items: InboxGroup[]
  marks: { type: string; mark: number }[]
  next_due_ms: number | null
}

const claimStatement = {
  name: 'processes.claim-inbox',
  text: 'select * from holdfast.claim_inbox_groups($1::text[], $2::float8[], $3, $4, $5, $6, $7)',
}
const doneStatement = {
  name: 'processes.inbox-done',
  text: 'select holdfast.finish_inbox_group($1, $2, $3::uuid[], $4::text::jsonb, $5)',
}
