import type { Codec } from '../kernel/codec/codec.js'
import { HoldfastError } from '../kernel/errors.js'
import { parseId } from '../kernel/ids/id.js'
import {
  type By,
  checkBy,
  type Database,
  type Executor,
  notFound,
  operatorCall,
  type ReportedEnd,
  type Reports,
  workOf,
  wrongStatus,
} from '../kernel/model/index.js'
import { parseWith } from '../kernel/validation/schema.js'
import { commandQueueFor } from '../queue/index.js'
import { definedCommand } from './define.js'
import { type CommandAction, operateCommands } from './queries/operate-commands.js'
import type { CommandOf } from './reference.js'
import type { HandlerRegistry } from './registry.js'
import { verbStatuses } from './states.js'

type Verb = keyof typeof verbStatuses

const VERBS = { RETRY: 'retry', NOT_DONE: 'retry', CANCEL: 'cancel', COMPLETE: 'complete' } as const

/** Ends by operators are counted like ends by handlers. */
export const ENDS: Readonly<Record<string, ReportedEnd>> = { cancel: 'cancelled', complete: 'completed' }

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
  /** One transaction: a command of another type is refused, and so is what does not fit its status. */
  async function operate(
    verb: Verb,
    command: CommandOf<never>,
    id: string,
    work: (tx: Executor) => Promise<string | undefined>,
  ): Promise<void> {
    const { domain, type } = command
    const named = workOf('commands', `${domain}/${type}`, id)
    await operatorCall(db, `${verb} ${id}`, async (tx) => {
      await statusOf(tx, command, id)
      const outcome = await work(tx)
      if (outcome === 'done') return
      if (outcome === 'outcome unknown') throw new HoldfastError('HF_CALL_OUTCOME_UNKNOWN', named)
      if (outcome === 'queue gone')
        throw new HoldfastError('HF_QUEUE_NOT_FOUND', { queue: commandQueueFor(db.schema, domain) })
      throw wrongStatus(named, verb, await statusOf(tx, command, id), verbStatuses)
    })
    const end = ENDS[verb]
    if (end) reports.ended({ model: 'commands', domain, type }, end)
  }

  return {
    async one(action, command, id, by, value) {
      const { domain } = command
      const verb = VERBS[action]
      const actor = checkBy(verb, by)
      const ids = [parseId(`${verb}: id`, id)]
      const encoded = value && { ...codec.encode(value.given), version: value.version }
      await operate(verb, command, id, async (tx) => {
        const [row] = await operateCommands(tx, { action, domain, ids }, actor, encoded)
        return row?.outcome
      })
    },
    async cancel(command, id, by) {
      const { domain } = command
      const actor = checkBy('cancel', by)
      await operate('cancel', command, id, async (tx) => {
        const [waiting] = await tx.run<CancelledRow & object>(cancelStatement, [domain, id, actor.actor, actor.reason])
        if (waiting?.outcome !== 'ended') return waiting?.outcome
        const [troubled] = await operateCommands(tx, { action: 'CANCEL', domain, ids: [id] }, actor)
        return troubled?.outcome
      })
    },
    async checkResult(command, result) {
      const name = `${command.domain}/${command.type}`
      const definition = definedCommand(command) ?? registry.find(name)?.definition
      return { given: await parseWith(definition?.resultSchema, result, `complete ${name}: result`) }
    },
  }
}

/** The status of a command. Refuses one of another type: its handle was made with the wrong definition. */
async function statusOf(tx: Executor, { domain, type }: CommandOf<never>, id: string): Promise<string> {
  const [row] = await tx.run<{ type: string; status: string }>(statusStatement, [domain, id])
  if (row?.type !== type) throw notFound('commands', `${domain}/${type}`, id)
  return row.status
}

const statusStatement = {
  name: 'commands.status-of',
  text: 'select type, status from holdfast.command where domain = $1 and command_id = $2::uuid',
}

interface CancelledRow {
  readonly outcome: 'done' | 'started' | 'ended' | 'unknown'
}

const cancelStatement = {
  name: 'commands.cancel',
  text: 'select holdfast.cancel_command($1, $2, $3, $4) as outcome',
}
