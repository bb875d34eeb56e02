import { type By, checkBy } from '../kernel/audit/audit.js'
import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import type { Executor } from '../kernel/database/executor.js'
import { lockedByOther, operatorCall, operatorCallForMany } from '../kernel/database/operator-call.js'
import { HoldfastError } from '../kernel/errors.js'
import { parseId } from '../kernel/ids/id.js'
import type { ReportedEnd, Reports } from '../kernel/reports/reports.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { booleanOption, checkOptions, integerOption, textOption } from '../kernel/validation/options.js'
import { parseWith } from '../kernel/validation/schema.js'
import { commandQueueFor } from '../queue/index.js'
import { type CommandDefinition, isDefinition } from './define.js'
import { commandNotFound } from './not-found.js'
import {
  countTrouble,
  type FailureGroup,
  groupTrouble,
  listTrouble,
  type TroubledCommand,
  type TroubleFilter,
} from './queries/list-trouble.js'
import { type CommandOf, domainOf } from './reference.js'
import type { HandlerRegistry } from './registry.js'

/** What became of one of many: done, or why not. */
export interface BulkAnswer {
  readonly commandId: string
  /**
   * `busy`: another transaction has locked it, and nothing was changed. `outcome unknown`: it can be retried only by a person
   * who says that its last call was not done. `queue gone`: it cannot be retried, because the queue of its domain was dropped.
   */
  readonly outcome: 'done' | 'not in troubleshooting' | 'unknown' | 'busy' | 'outcome unknown' | 'queue gone'
}

/**
 * What operators do with commands in troubleshooting. Everything takes who acts and why, is audited in the same
 * transaction, and is refused unless the command is in troubleshooting.
 */
export interface Troubleshooting {
  list(filter?: TroubleFilter): Promise<TroubledCommand[]>
  count(filter?: TroubleFilter): Promise<number>
  /** The failures that look alike, the most frequent first. */
  groups(filter?: TroubleFilter): Promise<FailureGroup[]>
  /** Many at once, each with its own answer. */
  retryMany(
    command: { readonly domain: string },
    commandIds: readonly string[],
    by: By & { readonly notDone?: boolean },
  ): Promise<BulkAnswer[]>
  cancelMany(command: { readonly domain: string }, commandIds: readonly string[], by: By): Promise<BulkAnswer[]>
  completeMany(
    command: CommandDefinition | { readonly domain: string },
    commandIds: readonly string[],
    by: By & { readonly result?: unknown },
  ): Promise<BulkAnswer[]>
}

export type CommandAction = 'RETRY' | 'NOT_DONE' | 'CANCEL' | 'COMPLETE'

const VERBS = { RETRY: 'retry', NOT_DONE: 'retry', CANCEL: 'cancel', COMPLETE: 'complete' } as const
/** What a person ends is counted like what a handler ends. */
const ENDS: Readonly<Partial<Record<CommandAction, ReportedEnd>>> = { CANCEL: 'cancelled', COMPLETE: 'completed' }
const PARTICIPLES = { RETRY: 'retried', NOT_DONE: 'retried', CANCEL: 'cancelled', COMPLETE: 'completed' } as const

/** Data or a result from an operator; the version says under which definition data was parsed. */
export interface Given {
  readonly given: unknown
  readonly version?: number
}

/** What operators do with commands, one or many; the calls of handles and the bulk calls go through it. */
export interface CommandOperations {
  /** Acts on commands in troubleshooting. */
  many(
    action: CommandAction,
    domain: string,
    commandIds: readonly string[],
    by: By,
    value?: Given,
  ): Promise<BulkAnswer[]>
  /** The same for one; throws where it was not done. */
  one(action: CommandAction, command: CommandOf<never>, id: string, by: By, value?: Given): Promise<void>
  /** Cancels a command that no worker has received yet, or that is in troubleshooting. */
  cancel(command: CommandOf<never>, id: string, by: By): Promise<void>
  /** Checks a result against the schemas of the commands that it is for: of the one given, or of those registered here. */
  checkResult(command: { readonly domain: string }, commandIds: readonly string[], result: unknown): Promise<Given>
}

interface OperatedRow {
  readonly commandId: string
  readonly outcome: BulkAnswer['outcome']
  readonly type: string | null
}

export function createCommandOperations(
  db: Database,
  codec: Codec,
  registry: HandlerRegistry,
  reports: Reports,
): CommandOperations {
  async function operate(
    action: CommandAction,
    domain: string,
    commandIds: readonly string[],
    by: By,
    value?: Given,
    check?: (tx: Executor) => Promise<void>,
  ): Promise<BulkAnswer[]> {
    const operation = VERBS[action]
    const { actor, reason } = checkBy(operation, by)
    const ids = checkIds(operation, commandIds).map((id) => parseId(`${operation}: commandId`, id))
    const encoded = value && codec.encode(value.given)
    const { json = null, notes } = encoded ?? {}
    const rest = [actor, reason, json, notes ? JSON.stringify(notes) : null, value?.version ?? null]
    const { answers, busy } = await operatorCallForMany(db, `${operation} in ${domain}`, ids, async (tx, some) => {
      await check?.(tx)
      return tx.run<OperatedRow & object>(operateStatement, [action, domain, some, ...rest])
    })
    const end = ENDS[action]
    for (const { outcome, type } of answers) {
      if (end && type !== null && outcome === 'done') reports.ended({ model: 'commands', domain, type }, end)
    }
    const known = new Map<string, BulkAnswer>(
      answers.map(({ commandId, outcome }) => [commandId, { commandId, outcome }]),
    )
    for (const commandId of busy) known.set(commandId, { commandId, outcome: 'busy' })
    return ids.map((commandId) => known.get(commandId) ?? { commandId, outcome: 'unknown' })
  }

  return {
    many: (action, domain, commandIds, by, value) => operate(action, domain, commandIds, by, value),
    async one(action, command, id, by, value) {
      const { domain, type } = command
      const [answer] = await operate(action, domain, [id], by, value, (tx) => checkType(tx, command, id))
      switch (answer?.outcome) {
        case 'done':
          return
        case 'busy':
          throw lockedByOther(`${VERBS[action]} ${id}`)
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
    async cancel({ domain, type }, id, by) {
      const { actor, reason } = checkBy('cancel', by)
      const row = await operatorCall(db, `cancel ${id}`, async (tx) => {
        await checkType(tx, { domain, type }, id)
        const [waiting] = await tx.run<CancelledRow & object>(cancelStatement, [domain, id, actor, reason])
        if (waiting?.outcome !== 'ended') return waiting
        const operated = ['CANCEL', domain, [id], actor, reason, null, null, null]
        const [troubled] = await tx.run<CancelledRow & object>(operateStatement, operated)
        return troubled
      })
      switch (row?.outcome) {
        case 'done':
          if (row.type !== null) reports.ended({ model: 'commands', domain, type: row.type }, 'cancelled')
          return
        case 'unknown':
          throw commandNotFound(domain, type, id)
        case 'started':
          throw wrongStatus(id, 'already received by a worker', 'cancelled')
        default:
          throw wrongStatus(id, 'already ended', 'cancelled')
      }
    },
    async checkResult(command, commandIds, result) {
      const { domain } = command
      const ids = checkIds('complete', commandIds).map((id) => parseId('complete: commandId', id))
      const rows = await db.run<{ type: string }>(typesStatement, [domain, ids])
      let given = result
      for (const { type } of rows) {
        const definition =
          isDefinition(command) && command.type === type ? command : registry.find(`${domain}/${type}`)?.definition
        given = await parseWith(definition?.resultSchema, result, `complete ${domain}/${type}: result`)
      }
      return { given }
    },
  }
}

export function createTroubleshooting(db: Database, codec: Codec, operations: CommandOperations): Troubleshooting {
  return {
    list: async (filter) => listTrouble(db, codec, checkFilter('list', filter)),
    count: async (filter) => countTrouble(db, checkFilter('count', filter)),
    groups: async (filter) => groupTrouble(db, checkFilter('groups', filter)),
    async retryMany(command, ids, by) {
      checkBy('retry', by)
      return operations.many(retryAction(by), domainOf('retryMany', command), ids, by)
    },
    cancelMany: async (command, ids, by) => operations.many('CANCEL', domainOf('cancelMany', command), ids, by),
    async completeMany(command, ids, by) {
      checkBy('complete', by)
      const domain = domainOf('completeMany', command)
      return operations.many('COMPLETE', domain, ids, by, await operations.checkResult(command, ids, by.result ?? null))
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

function retryAction({ notDone }: { readonly notDone?: boolean }): 'RETRY' | 'NOT_DONE' {
  return booleanOption('retry', 'notDone', notDone, { default: false }) ? 'NOT_DONE' : 'RETRY'
}

function checkIds(operation: string, commandIds: unknown): readonly unknown[] {
  if (Array.isArray(commandIds)) return commandIds
  throw invalidOption(operation, 'commandIds', `must be a list of ids, not ${describe(commandIds)}`)
}

function checkFilter(operation: string, filter: TroubleFilter = {}): TroubleFilter {
  const where = `troubleshooting.${operation}`
  checkOptions(where, filter, ['domain', 'type', 'fingerprint', 'limit'])
  for (const name of ['domain', 'type', 'fingerprint'] as const)
    textOption(where, name, filter[name], { default: undefined })
  integerOption(where, 'limit', filter.limit, { min: 1, default: undefined })
  return filter
}

const typesStatement = {
  name: 'commands.types-of',
  text: 'select distinct type from holdfast.command where domain = $1 and command_id = any ($2::uuid[]) order by type',
}

const operateStatement = {
  name: 'commands.operate',
  text: `
    select operated.command_id as "commandId", outcome, command.type
    from holdfast.operate_commands($1, $2, $3::uuid[], $4, $5, $6::jsonb, $7::jsonb, $8) as operated
    left join holdfast.command on command.command_id = operated.command_id and command.domain = $2`,
}

interface CancelledRow {
  readonly outcome: 'done' | 'started' | 'ended' | BulkAnswer['outcome']
  readonly type: string | null
}

const cancelStatement = {
  name: 'commands.cancel',
  text: `
    select
      holdfast.cancel_command($1, $2, $3, $4) as outcome,
      (select type from holdfast.command where domain = $1 and command_id = $2) as type`,
}
