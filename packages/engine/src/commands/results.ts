import type { Codec } from '../kernel/codec/codec.js'
import type { Notes } from '../kernel/codec/notes.js'
import { HoldfastError } from '../kernel/errors.js'
import { type Database, notFound, type ResultSource, type Settled, workOf } from '../kernel/model/index.js'
import { findCommands } from './queries/find-commands.js'
import { findWhy } from './queries/find-why.js'
import type { CommandStatus } from './states.js'

interface Found {
  readonly domain: string
  readonly type: string
  readonly commandId: string
  readonly status: CommandStatus
  readonly result: unknown
  readonly notes: Notes | null
  readonly code: string
  readonly message: string
}

/** What a waiter names: a command of this type. */
export const resultKey = (domain: string, type: string, id: string): string => `${id} ${domain}/${type}`

/** The ends of commands: a result, an error that says why there is none, or a need for a person. */
export function commandResults(db: Database, codec: Codec): ResultSource<Found> {
  return {
    model: 'commands',
    async find(keys) {
      const named = keys.map(split)
      const rows = await db.run<Found>(findStatement, [named.map(({ id }) => id), named.map(({ domain }) => domain)])
      return new Map(rows.map((row) => [resultKey(row.domain, row.type, row.commandId), row]))
    },
    settle({ domain, type, commandId, status, result, notes, code, message }): Settled {
      const work = workOf('commands', `${domain}/${type}`, commandId)
      switch (status) {
        case 'COMPLETED':
          return { value: result === null ? null : codec.decode({ json: result, notes }) }
        case 'FAILED':
        case 'CANCELLED':
          return { error: new HoldfastError('HF_NOT_COMPLETED', { ...work, status, code, message }) }
        case 'IN_TROUBLESHOOTING_QUEUE':
          return { error: new HoldfastError('HF_NEEDS_ATTENTION', { ...work, status, step: '', code, message }) }
        default:
          return undefined
      }
    },
    unknown(key) {
      const { id, name } = split(key)
      return notFound('commands', name, id)
    },
    async why({ domain, type, commandId: id }) {
      const name = `${domain}/${type}`
      const [command] = await findCommands(db, codec, { domain, id, limit: 1 })
      if (!command) throw notFound('commands', name, id)
      return { work: workOf('commands', name, id), status: command.status, why: (await findWhy(db, command)).text }
    },
  }
}

function split(key: string): { readonly id: string; readonly domain: string; readonly name: string } {
  const space = key.indexOf(' ')
  return { id: key.slice(0, space), domain: key.slice(space + 1, key.indexOf('/')), name: key.slice(space + 1) }
}

const findStatement = {
  name: 'commands.find-ends',
  text: `
    select
      command.domain, command.type, command.command_id as "commandId", command.status, command.result, command.result_notes as notes,
      coalesce(command.error_code, '') as code, coalesce(command.error_message, '') as message
    from rows from (pg_catalog.unnest($1::uuid[]), pg_catalog.unnest($2::text[])) as asked (id, domain)
    join holdfast.command on command.command_id = asked.id and command.domain = asked.domain`,
}
