import { type By, checkBy } from '../kernel/audit/audit.js'
import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import type { Executor } from '../kernel/database/executor.js'
import { operatorCall } from '../kernel/database/operator-call.js'
import { HoldfastError } from '../kernel/errors.js'
import { parseId } from '../kernel/ids/id.js'
import type { Reports } from '../kernel/reports/reports.js'
import { parseWith } from '../kernel/validation/schema.js'
import { commandQueueFor } from '../queue/index.js'
import { isDefinition } from './define.js'
import { commandNotFound } from './not-found.js'
import { type CommandAction, operateCommands } from './queries/operate-commands.js'
import type { CommandOf } from './reference.js'
import type { HandlerRegistry } from './registry.js'

const VERBS = { RETRY: 'retry', NOT_DONE: 'retry', CANCEL: 'cancel', COMPLETE: 'complete' } as const
const PARTICIPLES = { RETRY: 'retried', NOT_DONE: 'retried', CANCEL: 'cancelled', COMPLETE: 'completed' } as const

/** Data or a result from an operator; the version says under which definition data was parsed. */
export interface Given {
  readonly given: unknown
  readonly version?: number
}

/** What operators do with one command; its handle calls it. `bulk.ts` is for many. */
export interface CommandOperations {
  /** Acts on a command in troubleshooting. */
  one(action: CommandAction, command: CommandOf<never>, id: string, by: By, value?: Given): Promise<void>
  /** Cancels a command that no worker has received yet, or that is in troubleshooting. */
  cancel(command: CommandOf<never>, id: string, by: By): Promise<void>
  /** Checks a result against the schema of the definition that is given, or that is registered here. */
  checkResult(command: CommandOf<never>, result: unknown): Promise<Given>
}

export function createCommandOperations(
  db: Database,
  codec: Codec,
  registry: HandlerRegistry,
  reports: Reports,
): CommandOperations {
  return {
    async one(action, command, id, by, value) {
      const { domain, type } = command
      const actor = checkBy(VERBS[action], by)
      const ids = [parseId(`${VERBS[action]}: id`, id)]
      const encoded = value && { ...codec.encode(value.given), version: value.version }
      const operated = await operatorCall(db, `${VERBS[action]} ${id}`, async (tx) => {
        await checkType(tx, command, id)
        const [row] = await operateCommands(tx, { action, domain, ids }, actor, encoded)
        return row
      })
      switch (operated?.outcome) {
        case 'done':
          if (action === 'CANCEL' || action === 'COMPLETE')
            reports.ended({ model: 'commands', domain, type }, action === 'CANCEL' ? 'cancelled' : 'completed')
          return
        case 'unknown':
          throw commandNotFound(domain, type, id)
        case 'outcome unknown':
          throw new HoldfastError('HF_CALL_OUTCOME_UNKNOWN', { what: 'command', id })
        case 'queue gone':
          throw new HoldfastError('HF_QUEUE_NOT_FOUND', { queue: commandQueueFor(db.schema, domain) })
        default:
          throw wrongStatus(id, 'not in troubleshooting', PARTICIPLES[action])
      }
    },
    async cancel(command, id, by) {
      const { domain, type } = command
      const actor = checkBy('cancel', by)
      const outcome = await operatorCall(db, `cancel ${id}`, async (tx) => {
        await checkType(tx, command, id)
        const [waiting] = await tx.run<CancelledRow & object>(cancelStatement, [domain, id, actor.actor, actor.reason])
        if (waiting?.outcome !== 'ended') return waiting?.outcome
        const [troubled] = await operateCommands(tx, { action: 'CANCEL', domain, ids: [id] }, actor)
        return troubled?.outcome
      })
      switch (outcome) {
        case 'done':
          return reports.ended({ model: 'commands', domain, type }, 'cancelled')
        case 'unknown':
          throw commandNotFound(domain, type, id)
        case 'started':
          throw wrongStatus(id, 'already received by a worker', 'cancelled')
        default:
          throw wrongStatus(id, 'already ended', 'cancelled')
      }
    },
    async checkResult(command, result) {
      const name = `${command.domain}/${command.type}`
      const definition = isDefinition(command) ? command : registry.find(name)?.definition
      return { given: await parseWith(definition?.resultSchema, result, `complete ${name}: result`) }
    },
  }
}

/** Refuses a command of another type: its handle was made with the wrong definition. */
async function checkType(tx: Executor, { domain, type }: CommandOf<never>, id: string): Promise<void> {
  const [row] = await tx.run<{ type: string }>(typesStatement, [domain, [id]])
  if (row?.type !== type) throw commandNotFound(domain, type, id)
}

function wrongStatus(id: string, status: string, operation: string): HoldfastError<'HF_WRONG_STATUS'> {
  return new HoldfastError('HF_WRONG_STATUS', { what: 'command', id, status, operation })
}

const typesStatement = {
  name: 'commands.types-of',
  text: 'select distinct type from holdfast.command where domain = $1 and command_id = any ($2::uuid[]) order by type',
}

interface CancelledRow {
  readonly outcome: 'done' | 'started' | 'ended' | 'unknown'
}

const cancelStatement = {
  name: 'commands.cancel',
  text: 'select holdfast.cancel_command($1, $2, $3, $4) as outcome',
}
