import { type By, checkBy } from '../kernel/audit/audit.js'
import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import { lockedByOther, operatorCallForMany } from '../kernel/database/operator-call.js'
import { HoldfastError } from '../kernel/errors.js'
import { parseId } from '../kernel/ids/id.js'
import type { ReportedEnd, Reports } from '../kernel/reports/reports.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { booleanOption, checkOptions, integerOption, textOption } from '../kernel/validation/options.js'
import { parseWith } from '../kernel/validation/schema.js'
import { commandQueueFor } from '../queue/index.js'
import type { CommandDefinition } from './define.js'
import {
  countTrouble,
  type FailureGroup,
  groupTrouble,
  listTrouble,
  type TroubledCommand,
  type TroubleFilter,
} from './queries/list-trouble.js'
import { domainOf } from './reference.js'
import type { HandlerRegistry } from './registry.js'

/** What became of one of many: done, or why not. */
export interface BulkAnswer {
  readonly commandId: string
  /**
   * `busy`: another transaction has locked it, and nothing was changed. `outcome unknown`: it can be retried only by a person
   * who says that its last call was not done (K-20). `queue gone`: it cannot be retried, because the queue of its domain was dropped.
   */
  readonly outcome: 'done' | 'not in troubleshooting' | 'unknown' | 'busy' | 'outcome unknown' | 'queue gone'
}

/**
 * What operators do with commands in troubleshooting (C-13). Everything takes who acts and why, is audited in the same
 * transaction, and is refused unless the command is in troubleshooting.
 */
export interface Troubleshooting {
  list(filter?: TroubleFilter): Promise<TroubledCommand[]>
  count(filter?: TroubleFilter): Promise<number>
  /** The failures that look alike, the most frequent first. */
  groups(filter?: TroubleFilter): Promise<FailureGroup[]>
  /**
   * Again from the first attempt, optionally with other data. A command with `atMostOnce` whose outcome is unknown is inquired
   * about before it is called; where its handler cannot, `notDone: true` says that you have found out.
   */
  retry<Input>(
    command: CommandDefinition<Input> | { readonly domain: string },
    commandId: string,
    by: By & { readonly data?: NoInfer<Input>; readonly notDone?: boolean },
  ): Promise<void>
  cancel(command: { readonly domain: string }, commandId: string, by: By): Promise<void>
  /**
   * Ends it as if its handler had returned this. The result is checked against the schema of the definition that is given, or
   * that has a handler here.
   */
  complete(
    command: CommandDefinition | { readonly domain: string },
    commandId: string,
    by: By & { readonly result?: unknown },
  ): Promise<void>
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

type Action = 'RETRY' | 'NOT_DONE' | 'CANCEL' | 'COMPLETE'

const VERBS = { RETRY: 'retry', NOT_DONE: 'retry', CANCEL: 'cancel', COMPLETE: 'complete' } as const
/** What a person ends is counted like what a handler ends (K-21). */
const ENDS: Readonly<Partial<Record<Action, ReportedEnd>>> = { CANCEL: 'cancelled', COMPLETE: 'completed' }
const PARTICIPLES = { RETRY: 'retried', NOT_DONE: 'retried', CANCEL: 'cancelled', COMPLETE: 'completed' } as const

/** Data or a result from an operator; the version says under which definition data was parsed. */
interface Given {
  readonly given: unknown
  readonly version?: number
}

type Target = CommandDefinition<never> | { readonly domain: string }

export function createTroubleshooting(
  db: Database,
  codec: Codec,
  registry: HandlerRegistry,
  reports: Reports,
): Troubleshooting {
  async function operate(
    action: Action,
    domain: string,
    commandIds: readonly string[],
    by: By,
    value?: Given,
  ): Promise<BulkAnswer[]> {
    const operation = VERBS[action]
    const { actor, reason } = checkBy(operation, by)
    const ids = checkIds(operation, commandIds).map((id) => parseId(`${operation}: commandId`, id))
    const encoded = value && codec.encode(value.given)
    const { json = null, notes } = encoded ?? {}
    const rest = [actor, reason, json, notes ? JSON.stringify(notes) : null, value?.version ?? null]
    const { answers, busy } = await operatorCallForMany(db, `${operation} in ${domain}`, ids, (tx, some) =>
      tx.run<BulkAnswer & { readonly type: string | null }>(operateStatement, [action, domain, some, ...rest]),
    )
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

  async function operateOne(action: Action, domain: string, commandId: string, by: By, value?: Given): Promise<void> {
    const [answer] = await operate(action, domain, [commandId], by, value)
    if (answer?.outcome === 'done') return
    if (answer?.outcome === 'busy') throw lockedByOther(`${VERBS[action]} ${commandId}`)
    if (answer?.outcome === 'unknown') throw new HoldfastError('HF_UNKNOWN_COMMAND', { commandId, domain })
    if (answer?.outcome === 'outcome unknown') {
      throw new HoldfastError('HF_CALL_OUTCOME_UNKNOWN', { what: 'command', id: commandId })
    }
    if (answer?.outcome === 'queue gone') {
      throw new HoldfastError('HF_QUEUE_NOT_FOUND', { queue: commandQueueFor(db.schema, domain) })
    }
    throw new HoldfastError('HF_WRONG_STATUS', {
      what: 'command',
      id: commandId,
      status: 'not in troubleshooting',
      operation: PARTICIPLES[action],
    })
  }

  /** Checks a result against the schemas of the commands that it is for: of the one given, or of those registered here. */
  async function checkResult(target: Target, commandIds: readonly string[], result: unknown): Promise<Given> {
    const domain = domainOf('complete', target)
    const ids = checkIds('complete', commandIds).map((id) => parseId('complete: commandId', id))
    const rows = await db.run<{ type: string }>(typesStatement, [domain, ids])
    let given = result
    for (const { type } of rows) {
      const definition =
        'resultSchema' in target && target.type === type ? target : registry.find(`${domain}/${type}`)?.definition
      given = await parseWith(definition?.resultSchema, result, `complete ${domain}/${type}: result`)
    }
    return { given }
  }

  return {
    list: async (filter) => listTrouble(db, codec, checkFilter('list', filter)),
    count: async (filter) => countTrouble(db, checkFilter('count', filter)),
    groups: async (filter) => groupTrouble(db, checkFilter('groups', filter)),
    async retry(command, commandId, by) {
      checkBy('retry', by)
      const action = retryAction(by)
      const domain = domainOf('retry', command)
      if (!('data' in by)) return operateOne(action, domain, commandId, by)
      if (!('dataSchema' in command)) return operateOne(action, domain, commandId, by, { given: by.data })
      const { type, version, dataSchema } = command
      const given = await parseWith(dataSchema, by.data, `retry ${domain}/${type}`)
      return operateOne(action, domain, commandId, by, { given, version })
    },
    cancel: async (command, commandId, by) => operateOne('CANCEL', domainOf('cancel', command), commandId, by),
    async complete(command, commandId, by) {
      checkBy('complete', by)
      const result = await checkResult(command, [commandId], by.result ?? null)
      return operateOne('COMPLETE', domainOf('complete', command), commandId, by, result)
    },
    async retryMany(command, ids, by) {
      checkBy('retry', by)
      return operate(retryAction(by), domainOf('retryMany', command), ids, by)
    },
    cancelMany: async (command, ids, by) => operate('CANCEL', domainOf('cancelMany', command), ids, by),
    async completeMany(command, ids, by) {
      checkBy('complete', by)
      return operate(
        'COMPLETE',
        domainOf('completeMany', command),
        ids,
        by,
        await checkResult(command, ids, by.result ?? null),
      )
    },
  }
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
