import { type By, checkBy } from '../kernel/audit/audit.js'
import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import { operatorCall, operatorCallForMany } from '../kernel/database/operator-call.js'
import { HoldfastError } from '../kernel/errors.js'
import { parseId } from '../kernel/ids/id.js'
import { chunksOf } from '../kernel/model/lists.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { booleanOption, checkOptions, choiceOption, dateOption } from '../kernel/validation/options.js'
import { callTarget } from './cycle/call-target.js'
import { type DispatchDefinition, isDispatch } from './define.js'
import {
  findExecution,
  findItemIds,
  type ItemChange,
  type ItemOperation,
  type OperatedItem,
  operateItems,
} from './queries/operate-items.js'
import { type DispatchOf, itemTypeOf } from './reference.js'
import { sealContext } from './schedule.js'
import type { DispatchStatus } from './states.js'
import { isOwn } from './targets.js'

/** Which items: by their ids, those that fit, or all. Those that fit and all are READY ones, unless `status` says DISPATCHED. */
export type WhichItems =
  | readonly string[]
  | {
      readonly status?: 'READY' | 'DISPATCHED'
      readonly batchId?: string
      readonly from?: Date | string
      readonly until?: Date | string
    }
  | 'all'

/**
 * What became of one of many: `done`; `execution cancelled` where it was dispatched and its execution is cancelled instead;
 * `unknown`; `busy` where another transaction held it for too long; else the status in which it cannot be done.
 */
export interface ItemAnswer {
  readonly itemId: string
  readonly outcome: 'done' | 'execution cancelled' | 'unknown' | 'busy' | DispatchStatus
  /** Why the execution could not be cancelled. */
  readonly problem?: string
}

export interface CancelItemOptions {
  /** Where an execution is cancelled instead: undo what it did. Default: true. */
  readonly compensate?: boolean
}

export interface RescheduleOptions<Input = unknown> {
  readonly execTime?: Date | string
  readonly context?: Input
}

/**
 * What operators do with items (D-15). Everything takes who acts and why, and is audited in the same transaction. A single item
 * that it cannot be done to is refused with HF_ITEM_CONFLICT; of many each has its own answer.
 */
export interface ItemOperations {
  /**
   * Ends a READY item: it is never executed. Of a DISPATCHED one the execution is cancelled instead.
   *
   * @example
   * await hf.dispatch.items.cancel(Settlement, 'PAY-1', { actor: 'ann', reason: 'the customer called' })
   */
  cancel(dispatch: DispatchOf, itemId: string, by: By, options?: CancelItemOptions): Promise<ItemAnswer>
  cancelMany(
    dispatch: DispatchOf,
    which: WhichItems,
    by: By,
    options?: CancelItemOptions,
  ): Promise<readonly ItemAnswer[]>
  /** Gives a READY item another time, another context, or both. */
  reschedule(dispatch: DispatchOf, itemId: string, change: RescheduleOptions, by: By): Promise<ItemAnswer>
  rescheduleMany(
    dispatch: DispatchOf,
    which: WhichItems,
    change: RescheduleOptions,
    by: By,
  ): Promise<readonly ItemAnswer[]>
  /** Makes a READY item due now, before all others; the rate holds for it too. */
  expedite(dispatch: DispatchOf, itemId: string, by: By): Promise<ItemAnswer>
  expediteMany(dispatch: DispatchOf, which: WhichItems, by: By): Promise<readonly ItemAnswer[]>
}

/** What ends executions on our own engine. */
export interface ExecutionCancels {
  process(type: string, id: string, by: By, options: { readonly compensate: boolean }): Promise<void>
  workflow(id: string, by: By): Promise<void>
  /** The definitions of this program, where an item type is named by its name. */
  find(itemType: string): DispatchDefinition<never> | undefined
}

/** Each transaction takes so many at most. */
const CHUNK = 1_000

type Operate = (ids: readonly string[]) => Promise<ItemAnswer[]>

/** One transaction, and the answers; of what another transaction holds, that. */
export function operatingOn(
  db: Database,
  asked: { readonly operation: ItemOperation; readonly itemType: string; readonly change?: ItemChange },
  by: By,
): (ids: readonly string[]) => Promise<(OperatedItem | { itemId: string; outcome: 'busy'; executionId: null })[]> {
  const what = `${asked.operation.toLowerCase()} items of ${asked.itemType}`
  return async (ids) => {
    const { answers, busy } = await operatorCallForMany(db, what, ids, (tx, some) =>
      operateItems(tx, { ...asked, ids: some }, by),
    )
    return [...answers, ...busy.map((itemId) => ({ itemId, outcome: 'busy' as const, executionId: null }))]
  }
}

export function createItemOperations(db: Database, codec: Codec, cancels: ExecutionCancels): ItemOperations {
  function cancelling(dispatch: DispatchOf, by: By, options: CancelItemOptions = {}): Operate {
    const where = 'items.cancel'
    const itemType = itemTypeOf(where, dispatch)
    const actor = checkBy(where, by)
    const given = checkOptions(where, options, ['compensate'])
    const compensate = booleanOption(where, 'compensate', given.compensate, { default: true })
    const operate = operatingOn(db, { operation: 'CANCEL', itemType }, actor)
    const definition = isDispatch(dispatch) ? dispatch : cancels.find(itemType)
    return async (ids) => {
      const answers: ItemAnswer[] = []
      for (const { itemId, outcome, executionId } of await operate(ids)) {
        if (outcome !== 'DISPATCHED' || executionId === null) answers.push({ itemId, outcome })
        else answers.push({ itemId, ...(await cancelExecution(definition, itemType, executionId, actor, compensate)) })
      }
      return answers
    }
  }

  async function cancelExecution(
    definition: DispatchDefinition<never> | undefined,
    itemType: string,
    executionId: string,
    by: By,
    compensate: boolean,
  ): Promise<Omit<ItemAnswer, 'itemId'>> {
    try {
      const own = await operatorCall(db, `cancel ${executionId}`, (tx) => findExecution(tx, itemType, executionId))
      if (own?.type.includes('/')) await cancels.process(own.type, own.id, by, { compensate })
      else if (own) await cancels.workflow(own.id, by)
      else await cancelElsewhere(definition, executionId)
      return { outcome: 'execution cancelled' }
    } catch (error) {
      return { outcome: 'DISPATCHED', problem: error instanceof Error ? error.message : String(error) }
    }
  }

  async function rescheduling(dispatch: DispatchOf, change: RescheduleOptions, by: By): Promise<Operate> {
    const where = 'items.reschedule'
    const itemType = itemTypeOf(where, dispatch)
    const actor = checkBy(where, by)
    const given = checkOptions(where, change, ['execTime', 'context'])
    const execTime = dateOption(where, 'execTime', given.execTime, { default: undefined })
    if (execTime === undefined && given.context === undefined) {
      throw invalidOption(where, 'change', 'must name another execTime, another context, or both')
    }
    const definition = isDispatch(dispatch) ? dispatch : cancels.find(itemType)
    const context = given.context === undefined ? {} : await sealContext(definition, given.context, where, codec)
    const sealed = { ...(execTime ? { execTime: execTime.getTime() } : {}), ...context }
    return operatingOn(db, { operation: 'RESCHEDULE', itemType, change: sealed }, actor)
  }

  function expediting(dispatch: DispatchOf, by: By): Operate {
    const itemType = itemTypeOf('items.expedite', dispatch)
    return operatingOn(db, { operation: 'EXPEDITE', itemType }, checkBy('items.expedite', by))
  }

  const many = (dispatch: DispatchOf, which: WhichItems, operate: Operate) =>
    inChunks(db, itemTypeOf('items', dispatch), which, operate)

  return {
    cancel: async (dispatch, itemId, by, options) =>
      single(dispatch, itemId, 'cancelled', cancelling(dispatch, by, options)),
    cancelMany: async (dispatch, which, by, options) => many(dispatch, which, cancelling(dispatch, by, options)),
    reschedule: async (dispatch, itemId, change, by) =>
      single(dispatch, itemId, 'rescheduled', await rescheduling(dispatch, change, by)),
    rescheduleMany: async (dispatch, which, change, by) =>
      many(dispatch, which, await rescheduling(dispatch, change, by)),
    expedite: async (dispatch, itemId, by) => single(dispatch, itemId, 'expedited', expediting(dispatch, by)),
    expediteMany: async (dispatch, which, by) => many(dispatch, which, expediting(dispatch, by)),
  }
}

/** A target elsewhere is asked to end the execution; its end is reported or noticed like any other. */
async function cancelElsewhere(definition: DispatchDefinition<never> | undefined, executionId: string): Promise<void> {
  const target = definition?.target
  if (!target || isOwn(target)) throw new Error(`its execution ${executionId} was not found here`)
  const cancel = target.cancel?.bind(target)
  if (!cancel) throw new Error(`the target ${target.name} cannot cancel executions: it has no \`cancel\``)
  await callTarget(target.name, definition.callTimeoutMs, new AbortController().signal, (signal) =>
    cancel([executionId], { signal }),
  )
}

async function single(dispatch: DispatchOf, itemId: unknown, done: string, operate: Operate): Promise<ItemAnswer> {
  const itemType = itemTypeOf('items', dispatch)
  if (typeof itemId !== 'string' || itemId === '') {
    throw invalidOption(`items of ${itemType}`, 'itemId', 'must be the id of an item')
  }
  const [answer] = await operate([itemId])
  if (!answer || answer.outcome === 'unknown') throw new HoldfastError('HF_UNKNOWN_ITEM', { itemType, itemId })
  if (answer.outcome === 'done' || answer.outcome === 'execution cancelled') return answer
  if (answer.outcome === 'busy') {
    const problem = 'another transaction has locked it'
    throw new HoldfastError('HF_BUSY', { operation: `item ${itemId} of ${itemType}`, waited: '3s', problem })
  }
  const problem = `is ${answer.outcome} and cannot be ${done}${answer.problem ? `: ${answer.problem}` : ''}`
  throw new HoldfastError('HF_ITEM_CONFLICT', { itemType, itemId, problem })
}

/** Those named, or those that fit, so many at a time; what a chunk has changed no longer fits. */
export async function inChunks(
  db: Database,
  itemType: string,
  which: unknown,
  operate: Operate,
  fixed: { readonly status?: DispatchStatus; readonly fingerprint?: string | null } = {},
): Promise<readonly ItemAnswer[]> {
  const answers: ItemAnswer[] = []
  if (Array.isArray(which)) {
    for (const ids of chunksOf(which.map(String), CHUNK)) answers.push(...(await operate(ids)))
    return answers
  }
  const fits = { itemType, ...checkSelection(which, fixed.status), fingerprint: fixed.fingerprint ?? null }
  for (let after = ''; ; ) {
    const ids = await findItemIds(db, fits, after, CHUNK)
    if (ids.length > 0) answers.push(...(await operate(ids)))
    if (ids.length < CHUNK) return answers
    after = ids.at(-1) ?? ''
  }
}

function checkSelection(which: unknown, status: DispatchStatus | undefined) {
  const where = 'which items'
  const given = which === 'all' || status !== undefined ? {} : which
  if (typeof given !== 'object' || given === null || (which !== 'all' && !status && Object.keys(given).length === 0)) {
    throw invalidOption(
      where,
      'which',
      "must be a list of item ids, { status, batchId, from, until } with at least one of them, or 'all'",
    )
  }
  const known = checkOptions(where, given as Record<string, unknown>, ['status', 'batchId', 'from', 'until'])
  return {
    status:
      status ?? choiceOption(where, 'status', known.status, ['READY', 'DISPATCHED'] as const, { default: 'READY' }),
    batchId: known.batchId === undefined ? null : parseId(`${where}: batchId`, known.batchId),
    from: dateOption(where, 'from', known.from, { default: undefined }) ?? null,
    until: dateOption(where, 'until', known.until, { default: undefined }) ?? null,
  }
}
