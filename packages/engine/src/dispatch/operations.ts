import type { Codec } from '../kernel/codec/codec.js'
import { HoldfastError } from '../kernel/errors.js'
import {
  type BulkResult,
  type By,
  type CancelOptions,
  checkBy,
  checkCancelOptions,
  chunksOf,
  createLockBudget,
  type Database,
  type Executor,
  type LockBudget,
  lockedByOther,
  notFound,
  operatorCall,
  operatorCallForMany,
  uuid,
  type Why,
  workOf,
  wrongStatus,
} from '../kernel/model/index.js'
import { anything, boolean, choice, date, declareOptions, timeSpan } from '../kernel/validation/declared.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { callTarget } from './cycle/call-target.js'
import { type DefinedDispatch, definedDispatch } from './define.js'
import { encodeContext } from './encode-context.js'
import {
  findExecution,
  findItemIds,
  findLockedItems,
  type ItemChange,
  type ItemOperation,
  type OwnExecution,
  operateItems,
} from './queries/operate-items.js'
import { type DispatchOf, itemTypeOf } from './reference.js'
import { type DispatchStatus, verbStatuses } from './states.js'
import { isOwn } from './targets.js'

/**
 * What operators do with items, one or many: every verb is prepared once (arguments checked, context parsed) and then applied to
 * lists of keys, one transaction each. `single` throws why an item was refused, `many` returns it for each.
 */

/** Which items: by their keys, by a filter, or all. A filter and `'all'` select READY items, unless `status` is DISPATCHED. */
export type WhichItems =
  | readonly string[]
  | {
      readonly status?: 'READY' | 'DISPATCHED'
      /** The batch in which they were released. */
      readonly batch?: string
      /** By the time at which they are to start: from this moment on, and before that one. */
      readonly startAt?: { readonly from?: Date | string; readonly until?: Date | string }
    }
  | 'all'

export interface RescheduleOptions<Input = unknown> {
  readonly startAt?: Date | string
  readonly context?: Input
}

export interface RetryItemOptions {
  /** Another time to start. Default: the item's own, which has passed, so it is due at once. */
  readonly startAt?: Date | string
  /**
   * A person found out that a remote target did not start the item, although its start ended without an answer: it is started
   * again. Without this the target is asked until it can say so. Default: false.
   */
  readonly notDone?: boolean
}

/** The executions of items on our own engine, and the definitions of this program. */
export interface Executions {
  cancel(execution: OwnExecution, by: By, options: { readonly compensate: boolean }): Promise<void>
  why(execution: OwnExecution): Promise<Why>
  find(itemType: string): DefinedDispatch | undefined
}

/** `unknown`: there is no such item. `locked`: by another transaction. A status: it cannot be done in this one. */
interface Operated {
  readonly key: string
  readonly outcome: 'done' | 'unknown' | 'locked' | DispatchStatus
  /** Why the execution could not be cancelled. */
  readonly problem?: string
  /** Why nothing was done, if the database refused it. */
  readonly error?: HoldfastError
}

/** A verb that is ready to be applied. */
export interface PreparedOperation {
  readonly itemType: string
  readonly verb: keyof typeof verbStatuses
  apply(keys: readonly string[], budget?: LockBudget): Promise<readonly Operated[]>
}

export type ItemOperations = ReturnType<typeof createItemOperations>

/** The most items in one transaction. */
const CHUNK = 1_000

export function createItemOperations(db: Database, codec: Codec, executions: Executions) {
  const definitionOf = (dispatch: DispatchOf, itemType: string) =>
    definedDispatch(dispatch) ?? executions.find(itemType)

  function prepare(
    { verb, operation }: { readonly verb: PreparedOperation['verb']; readonly operation: ItemOperation },
    dispatch: DispatchOf,
    by: By,
    change?: ItemChange,
  ) {
    const itemType = itemTypeOf(verb, dispatch)
    const asked = { operation, itemType, ...(change ? { change } : {}) }
    const actor = checkBy(verb, by)
    const work = async (tx: Executor, keys: readonly string[], locked: 'wait' | 'skip') => {
      const others = new Set(locked === 'skip' ? await findLockedItems(tx, itemType, keys) : [])
      return operateItems(tx, { ...asked, ids: keys.filter((key) => !others.has(key)) }, actor)
    }
    const operate = async (keys: readonly string[], budget?: LockBudget) => {
      const { answers, refused } = await operatorCallForMany(db, `${verb} of ${itemType}`, keys, work, budget)
      const answered = new Set(answers.map(({ key }) => key))
      const others = keys.filter((key) => !answered.has(key))
      const refusal = (key: string) => {
        const error = refused.get(key)
        return { key, outcome: 'locked' as const, executionId: null, ...(error ? { error } : {}) }
      }
      return [...answers, ...others.map(refusal)]
    }
    return { itemType, verb, actor, operate }
  }

  function plain(...asked: Parameters<typeof prepare>): PreparedOperation {
    const { itemType, verb, operate } = prepare(...asked)
    return { itemType, verb, apply: operate }
  }

  async function cancelExecution(
    dispatch: DispatchOf,
    itemType: string,
    executionId: string,
    by: By,
    compensate: boolean,
  ): Promise<Omit<Operated, 'key'>> {
    try {
      const own = await operatorCall(db, `cancel ${executionId}`, (tx) => findExecution(tx, itemType, executionId))
      if (own) await executions.cancel(own, by, { compensate })
      else await cancelElsewhere(definitionOf(dispatch, itemType), executionId)
      return { outcome: 'done' }
    } catch (error) {
      return { outcome: 'DISPATCHED', problem: error instanceof Error ? error.message : String(error) }
    }
  }

  return {
    cancelling(dispatch: DispatchOf, by: By, options: CancelOptions = {}): PreparedOperation {
      const where = 'cancel'
      const { compensate } = checkCancelOptions(where, options)
      const { itemType, verb, actor, operate } = prepare({ verb: where, operation: 'CANCEL' }, dispatch, by)
      return {
        itemType,
        verb,
        async apply(keys, budget) {
          const operated: Operated[] = []
          for (const { key, outcome, executionId, ...more } of await operate(keys, budget)) {
            if (outcome !== 'DISPATCHED' || executionId === null) operated.push({ key, outcome, ...more })
            else operated.push({ key, ...(await cancelExecution(dispatch, itemType, executionId, actor, compensate)) })
          }
          return operated
        },
      }
    },

    async rescheduling(dispatch: DispatchOf, by: By, change: RescheduleOptions): Promise<PreparedOperation> {
      const where = 'reschedule'
      const given = checkReschedule(where, change)
      const { startAt } = given
      if (startAt === undefined && given.context === undefined) {
        throw invalidOption(where, 'change', 'must have another startAt, another context, or both')
      }
      const definition = definitionOf(dispatch, itemTypeOf(where, dispatch))
      const context = given.context === undefined ? {} : await encodeContext(definition, given.context, where, codec)
      const encoded = { ...(startAt ? { execTime: startAt.getTime() } : {}), ...context }
      return plain({ verb: where, operation: 'RESCHEDULE' }, dispatch, by, encoded)
    },

    expediting: (dispatch: DispatchOf, by: By): PreparedOperation =>
      plain({ verb: 'expedite', operation: 'EXPEDITE' }, dispatch, by),

    retrying(dispatch: DispatchOf, by: By, options: RetryItemOptions = {}): PreparedOperation {
      const where = 'retry'
      const { startAt, notDone } = checkRetryOptions(where, options)
      const change = { ...(startAt ? { execTime: startAt.getTime() } : {}), ...(notDone ? { notDone } : {}) }
      return plain({ verb: where, operation: 'RETRY' }, dispatch, by, change)
    },

    completing: (dispatch: DispatchOf, by: By): PreparedOperation =>
      plain({ verb: 'complete', operation: 'COMPLETE' }, dispatch, by),

    /** One item: throws why it was refused. */
    async single(operation: PreparedOperation, key: string): Promise<void> {
      const [operated] = await operation.apply([key])
      const refused = operated ? refusalOf(operation, operated) : undefined
      if (refused) throw refused
    },

    /** The named items, or those that match when it begins, in chunks. Nothing is done before all of them are known. */
    async many(operation: PreparedOperation, which: unknown): Promise<readonly BulkResult[]> {
      const keys = Array.isArray(which) ? which.map(String) : await matching(operation.itemType, which)
      const budget = createLockBudget()
      const results: BulkResult[] = []
      for (const chunk of chunksOf(keys, CHUNK)) {
        for (const operated of await operation.apply(chunk, budget)) results.push(resultOf(operation, operated))
      }
      return results
    },
  }

  async function matching(itemType: string, which: unknown): Promise<readonly string[]> {
    const fits = { itemType, ...checkSelection(which) }
    const found: string[] = []
    for (;;) {
      const keys = await findItemIds(db, fits, found.at(-1) ?? '', CHUNK)
      found.push(...keys)
      if (keys.length < CHUNK) return found
    }
  }
}

function refusalOf({ itemType, verb }: PreparedOperation, operated: Operated): HoldfastError | undefined {
  const { key, outcome, problem, error } = operated
  if (outcome === 'done') return undefined
  if (error) return error
  if (outcome === 'unknown') return notFound('dispatch', itemType, key)
  if (outcome === 'locked') return lockedByOther(`item ${key} of ${itemType}`)
  const work = workOf('dispatch', itemType, key)
  if (problem === undefined) return wrongStatus(work, verb, outcome, verbStatuses)
  return new HoldfastError('HF_ITEM_CONFLICT', {
    ...work,
    problem: `is ${outcome} and cannot be cancelled: ${problem}`,
  })
}

function resultOf(operation: PreparedOperation, operated: Operated): BulkResult {
  const refused = refusalOf(operation, operated)
  const item = { model: 'dispatch', id: operated.key } as const
  return refused
    ? { ...item, outcome: 'refused', code: refused.code, message: refused.message }
    : { ...item, outcome: 'done' }
}

/** A remote target is asked to end the execution; its end is reported or noticed like any other. */
async function cancelElsewhere(definition: DefinedDispatch | undefined, executionId: string): Promise<void> {
  const target = definition?.target
  if (!target || isOwn(target)) throw new Error(`its execution ${executionId} was not found here`)
  const cancel = target.cancel?.bind(target)
  if (!cancel) throw new Error(`the target ${target.name} cannot cancel executions: it has no \`cancel\``)
  await callTarget(target.name, definition.callTimeoutMs, new AbortController().signal, (signal) =>
    cancel([executionId], { signal }),
  )
}

function checkSelection(which: unknown) {
  const where = 'which items'
  const given = which === 'all' ? {} : which
  if (typeof given !== 'object' || given === null || (which !== 'all' && Object.keys(given).length === 0)) {
    const problem = "must be a list of keys, { status, batch, startAt } with at least one of them, or 'all'"
    throw invalidOption(where, 'which', problem)
  }
  const { status, batch = null, startAt } = checkWhich(where, given)
  return { status, batchId: batch, from: startAt.from ?? null, until: startAt.until ?? null }
}

const checkReschedule = declareOptions({ startAt: date, context: anything })
const checkRetryOptions = declareOptions({ startAt: date, notDone: boolean({ default: false }) })
const checkWhich = declareOptions({
  status: choice(['READY', 'DISPATCHED'], { default: 'READY' }),
  batch: uuid,
  startAt: timeSpan,
})
