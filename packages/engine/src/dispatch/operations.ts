import { type By, checkBy } from '../kernel/audit/audit.js'
import type { Codec } from '../kernel/codec/codec.js'
import type { Database } from '../kernel/database/database.js'
import { lockedByOther, operatorCall, operatorCallForMany } from '../kernel/database/operator-call.js'
import { HoldfastError } from '../kernel/errors.js'
import type { BulkResult } from '../kernel/model/bulk.js'
import type { CancelOptions } from '../kernel/model/handle.js'
import { chunksOf } from '../kernel/model/lists.js'
import { checkCancelOptions, uuid } from '../kernel/model/options.js'
import type { Why } from '../kernel/model/why.js'
import { notFound, workOf, wrongStatus } from '../kernel/model/work.js'
import { anything, boolean, choice, date, declareOptions, timeSpan } from '../kernel/validation/declared.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { callTarget } from './cycle/call-target.js'
import { type DefinedDispatch, definedDispatch } from './define.js'
import { encodeContext } from './encode-context.js'
import {
  findExecution,
  findItemIds,
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
}

/** A verb that is ready to be applied. */
export interface PreparedOperation {
  readonly itemType: string
  readonly verb: keyof typeof verbStatuses
  apply(keys: readonly string[]): Promise<readonly Operated[]>
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
    const operate = async (keys: readonly string[]) => {
      const { answers, busy } = await operatorCallForMany(db, `${verb} of ${itemType}`, keys, (tx, some) =>
        operateItems(tx, { ...asked, ids: some }, actor),
      )
      return [...answers, ...busy.map((key) => ({ key, outcome: 'locked' as const, executionId: null }))]
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
        async apply(keys) {
          const operated: Operated[] = []
          for (const { key, outcome, executionId } of await operate(keys)) {
            if (outcome !== 'DISPATCHED' || executionId === null) operated.push({ key, outcome })
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

    /** The named items, or those that match, in chunks; items that a chunk has changed no longer match. */
    async many(operation: PreparedOperation, which: unknown): Promise<readonly BulkResult[]> {
      const results: BulkResult[] = []
      const apply = async (keys: readonly string[]) => {
        for (const operated of await operation.apply(keys)) results.push(resultOf(operation, operated))
      }
      if (Array.isArray(which)) {
        for (const keys of chunksOf(which.map(String), CHUNK)) await apply(keys)
        return results
      }
      const { itemType } = operation
      const fits = { itemType, ...checkSelection(which) }
      for (let after = ''; ; ) {
        const keys = await findItemIds(db, fits, after, CHUNK)
        if (keys.length > 0) await apply(keys)
        if (keys.length < CHUNK) return results
        after = keys.at(-1) ?? ''
      }
    },
  }
}

function refusalOf({ itemType, verb }: PreparedOperation, operated: Operated): HoldfastError | undefined {
  const { key, outcome, problem } = operated
  if (outcome === 'done') return undefined
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
