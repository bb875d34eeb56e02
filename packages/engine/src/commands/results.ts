import type { Codec } from '../kernel/codec/codec.js'
import type { Notes } from '../kernel/codec/notes.js'
import type { Database } from '../kernel/database/database.js'
import { HoldfastError } from '../kernel/errors.js'
import { missingWorker, PAUSED, presenceIn } from '../kernel/results/presence.js'
import type { ResultSource, Settled } from '../kernel/results/results.js'
import { findCommands } from './queries/find-commands.js'
import type { CommandStatus } from './states.js'

interface Found {
  readonly domain: string
  readonly commandId: string
  readonly status: CommandStatus
  readonly result: unknown
  readonly notes: Notes | null
  readonly code: string
  readonly message: string
}

/** What a waiter names: a command of a domain. */
export const resultKey = (domain: string, commandId: string): string => `${commandId} ${domain}`

/** The ends of commands (K-22): a result, an error that says why there is none, or a need for a person. */
export function commandResults(db: Database, codec: Codec): ResultSource<Found> {
  const isLive = presenceIn(db, 'commands')

  return {
    model: 'commands',
    what: 'command',
    async find(keys) {
      const named = keys.map(split)
      const rows = await db.run<Found>(findStatement, [named.map(([id]) => id), named.map(([, domain]) => domain)])
      return new Map(rows.map((row) => [resultKey(row.domain, row.commandId), row]))
    },
    settle({ commandId, status, result, notes, code, message }): Settled {
      switch (status) {
        case 'COMPLETED':
          return { value: result === null ? null : codec.decode({ json: result, notes }) }
        case 'FAILED':
        case 'CANCELLED':
          return { error: new HoldfastError('HF_COMMAND_NOT_COMPLETED', { commandId, status, code, message }) }
        case 'IN_TROUBLESHOOTING_QUEUE': {
          const details = { what: 'command', id: commandId, code, step: '', message }
          return { error: new HoldfastError('HF_NEEDS_ATTENTION', details) }
        }
        default:
          return undefined
      }
    },
    unknown(key) {
      const [commandId, domain] = split(key)
      return new HoldfastError('HF_UNKNOWN_COMMAND', { commandId, domain })
    },
    async why(_key, { domain, commandId }) {
      const [command] = await findCommands(db, codec, { domain, commandId, limit: 1 })
      if (!command) throw new HoldfastError('HF_UNKNOWN_COMMAND', { commandId, domain })
      const { type, status, attempts, dueAt, error, paused } = command
      if (paused) return { id: commandId, status, why: PAUSED }
      const name = `${domain}/${type}`
      const worker = (await isLive(name)) ? 'a live worker has its handler' : missingWorker('commands', name)
      const failed = error ? `, after ${error.code}: ${error.message}` : ''
      const waits =
        status === 'IN_PROGRESS'
          ? `attempt ${attempts} is running`
          : `attempt ${attempts + 1} is due ${dueAt ? `at ${dueAt.toISOString()}` : 'now'}${failed}`
      return { id: commandId, status, why: `${waits}; ${worker}` }
    },
  }
}

function split(key: string): [commandId: string, domain: string] {
  const space = key.indexOf(' ')
  return [key.slice(0, space), key.slice(space + 1)]
}

const findStatement = {
  name: 'commands.find-ends',
  text: `
    select
      command.domain, command.command_id as "commandId", command.status, command.result, command.result_notes as notes,
      coalesce(command.error_code, '') as code, coalesce(command.error_message, '') as message
    from rows from (pg_catalog.unnest($1::uuid[]), pg_catalog.unnest($2::text[])) as asked (id, domain)
    join holdfast.command on command.command_id = asked.id and command.domain = asked.domain`,
}
