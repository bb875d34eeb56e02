import { type Actor, checkActor } from '../kernel/audit/audit.js'
import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import { lockedByOther, operatorCallForMany } from '../kernel/database/operator-call.js'
import { HoldfastError } from '../kernel/errors.js'
import { parseId } from '../kernel/ids/id.js'
import { checkOptions, integerOption } from '../kernel/validation/options.js'
import { parseWith } from '../kernel/validation/schema.js'
import type { CommandDefinition } from './define.js'
import {
  countTrouble,
  type FailureGroup,
  groupTrouble,
  listTrouble,
  type TroubledCommand,
  type TroubleFilter,
} from './queries/list-trouble.js'

/** What became of one of many: done, or why not. */
export interface BulkAnswer {
  readonly commandId: string
  /** `busy`: another transaction has locked it, and nothing was changed. */
  readonly outcome: 'done' | 'not in troubleshooting' | 'unknown' | 'busy'
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
  /** Again from the first attempt, optionally with other data. */
  retry<Input>(
    command: CommandDefinition<Input> | { readonly domain: string },
    commandId: string,
    by: Actor & { readonly data?: NoInfer<Input> },
  ): Promise<void>
  cancel(command: { readonly domain: string }, commandId: string, by: Actor): Promise<void>
  /** Ends it as if its handler had returned this. */
  complete(
    command: { readonly domain: string },
    commandId: string,
    by: Actor & { readonly result?: unknown },
  ): Promise<void>
  /** Many at once, each with its own answer. */
  retryMany(command: { readonly domain: string }, commandIds: readonly string[], by: Actor): Promise<BulkAnswer[]>
  cancelMany(command: { readonly domain: string }, commandIds: readonly string[], by: Actor): Promise<BulkAnswer[]>
  completeMany(
    command: { readonly domain: string },
    commandIds: readonly string[],
    by: Actor & { readonly result?: unknown },
  ): Promise<BulkAnswer[]>
}

type Action = 'RETRY' | 'CANCEL' | 'COMPLETE'

/** Data or a result from an operator; the version says under which definition data was parsed. */
interface Given {
  readonly given: unknown
  readonly version?: number
}

export function createTroubleshooting(db: Database, codec: Codec): Troubleshooting {
  async function operate(
    action: Action,
    domain: string,
    commandIds: readonly string[],
    by: Actor,
    value: Given | undefined,
  ): Promise<BulkAnswer[]> {
    const operation = action.toLowerCase()
    const { actor, reason } = checkActor(operation, by)
    const ids = commandIds.map((id) => parseId(`${operation}: commandId`, id))
    const encoded = value && codec.encode(value.given)
    const { json = null, notes } = encoded ?? {}
    const rest = [actor, reason, json, notes ? JSON.stringify(notes) : null, value?.version ?? null]
    const { answers, busy } = await operatorCallForMany(db, `${operation} in ${domain}`, ids, (tx, some) =>
      tx.run<BulkAnswer>(operateStatement, [action, domain, some, ...rest]),
    )
    const known = new Map(answers.map((answer) => [answer.commandId, answer]))
    for (const commandId of busy) known.set(commandId, { commandId, outcome: 'busy' })
    return ids.map((commandId) => known.get(commandId) ?? { commandId, outcome: 'unknown' })
  }

  async function operateOne(
    action: Action,
    domain: string,
    commandId: string,
    by: Actor,
    value?: Given,
  ): Promise<void> {
    const [answer] = await operate(action, domain, [commandId], by, value)
    if (answer?.outcome === 'done') return
    if (answer?.outcome === 'busy') throw lockedByOther(`${action.toLowerCase()} ${commandId}`)
    if (answer?.outcome === 'unknown') throw new HoldfastError('HF_UNKNOWN_COMMAND', { commandId, domain })
    const operation = { RETRY: 'retried', CANCEL: 'cancelled', COMPLETE: 'completed' }[action]
    throw new HoldfastError('HF_WRONG_STATUS', {
      what: 'command',
      id: commandId,
      status: 'not in troubleshooting',
      operation,
    })
  }

  return {
    list: async (filter) => listTrouble(db, codec, checkFilter('list', filter)),
    count: async (filter) => countTrouble(db, checkFilter('count', filter)),
    groups: async (filter) => groupTrouble(db, checkFilter('groups', filter)),
    async retry(command, commandId, by) {
      if (!('data' in by)) return operateOne('RETRY', command.domain, commandId, by)
      if (!('dataSchema' in command)) return operateOne('RETRY', command.domain, commandId, by, { given: by.data })
      const { domain, type, version, dataSchema } = command
      const given = await parseWith(dataSchema, by.data, `retry ${domain}/${type}`)
      return operateOne('RETRY', domain, commandId, by, { given, version })
    },
    cancel: ({ domain }, commandId, by) => operateOne('CANCEL', domain, commandId, by),
    complete: ({ domain }, commandId, by) =>
      operateOne('COMPLETE', domain, commandId, by, { given: by.result ?? null }),
    retryMany: ({ domain }, ids, by) => operate('RETRY', domain, ids, by, undefined),
    cancelMany: ({ domain }, ids, by) => operate('CANCEL', domain, ids, by, undefined),
    completeMany: ({ domain }, ids, by) => operate('COMPLETE', domain, ids, by, { given: by.result ?? null }),
  }
}

function checkFilter(operation: string, filter: TroubleFilter = {}): TroubleFilter {
  const where = `troubleshooting.${operation}`
  checkOptions(where, filter, ['domain', 'type', 'fingerprint', 'limit'])
  integerOption(where, 'limit', filter.limit, { min: 1, default: undefined })
  return filter
}

const operateStatement = {
  name: 'commands.operate',
  text: `
    select command_id as "commandId", outcome
    from holdfast.operate_commands($1, $2, $3::uuid[], $4, $5, $6::jsonb, $7::jsonb, $8)`,
}
