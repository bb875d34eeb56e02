import { type By, checkBy } from '../kernel/audit/audit.js'
import type { Database } from '../kernel/database/database.js'
import { operatorCall } from '../kernel/database/operator-call.js'
import { HoldfastError } from '../kernel/errors.js'
import { parseId } from '../kernel/ids/id.js'
import type { BulkResult } from '../kernel/model/bulk.js'
import type { CancelOptions } from '../kernel/model/handle.js'
import { checkOptions, choiceOption, dateOption, integerOption } from '../kernel/validation/options.js'
import { nothingBegins } from './kill-switch.js'
import type { ItemOperations, RescheduleOptions, WhichItems } from './operations.js'
import { type DispatchPlan, type PlanOptions, planOf } from './plan.js'
import { configureDispatch, resumeDispatch } from './queries/configure-dispatch.js'
import { countItems, type Depth } from './queries/count-items.js'
import { type DispatchItem, listItems } from './queries/find-items.js'
import { type DispatchConfig, listConfigs, readConfig } from './queries/read-config.js'
import type { ReportAnswer } from './queries/report-ends.js'
import { type DispatchOf, itemTypeOf } from './reference.js'
import { type ExecutionEnd, reportEnd } from './report-end.js'
import { checkSettings, type DispatchSettings } from './settings.js'
import { type DispatchStatus, dispatchStatuses } from './states.js'

export interface ItemListFilter {
  readonly status?: DispatchStatus
  readonly batchId?: string
  /** By execution time: from this moment on, and before that one. */
  readonly from?: Date | string
  readonly until?: Date | string
  readonly limit?: number
}

/** Scheduled work that is released at a rate (D-01 to D-13). */
export interface Dispatch {
  /**
   * Changes the configuration of an item type; what is not named stays. The next cycle goes by it.
   *
   * @example
   * await hf.dispatch.configure(Settlement, { batchSize: 1_000 }, { actor: 'ann', reason: 'the window is late' })
   */
  configure(dispatch: DispatchOf, settings: DispatchSettings, by: By): Promise<void>
  config(dispatch: DispatchOf): Promise<DispatchConfig>
  configs(): Promise<DispatchConfig[]>
  /**
   * The kill switch: nothing more is released, and what our own engine has been given and has not begun is held back. When it
   * returns, nothing that had not begun will begin.
   */
  pause(dispatch: DispatchOf, by: By): Promise<void>
  /** Switches it on again, and lets a window that has stopped by itself (`tripAfter`) go on. */
  resume(dispatch: DispatchOf, by: By): Promise<void>
  /** How many are due when, at which rate they go, when they will be through; also under another configuration. */
  plan(dispatch: DispatchOf, options?: PlanOptions): Promise<DispatchPlan>
  /** How many items have which status. */
  depth(dispatch: DispatchOf): Promise<Depth>
  /**
   * Says how executions of a remote target ended, as soon as the target knows: nobody has to ask for it then (D-13). Says of
   * each what became of the report.
   *
   * @example
   * await hf.dispatch.reportEnd(Settlement, { executionId, status: 'COMPLETED' })
   */
  reportEnd(dispatch: DispatchOf, ends: ExecutionEnd | readonly ExecutionEnd[]): Promise<readonly ReportAnswer[]>
  /**
   * Stops many items, each as `hf.item(…).cancel` does. Returns for each what became of it.
   *
   * @example
   * await hf.dispatch.cancelMany(Settlement, { startAt: { from: fourOClock } }, { actor: 'ann', reason: 'bank holiday' })
   */
  cancelMany(dispatch: DispatchOf, which: WhichItems, by: By, options?: CancelOptions): Promise<readonly BulkResult[]>
  /** Gives many READY items another time to start, another context, or both. */
  rescheduleMany(
    dispatch: DispatchOf,
    which: WhichItems,
    by: By,
    change: RescheduleOptions,
  ): Promise<readonly BulkResult[]>
  /** Makes many READY items due now, before all others; the rate holds for them too. */
  expediteMany(dispatch: DispatchOf, which: WhichItems, by: By): Promise<readonly BulkResult[]>
  readonly items: {
    /** By their execution time, the earliest first; 100 unless `limit` says otherwise. */
    list(dispatch: DispatchOf, filter?: ItemListFilter): Promise<DispatchItem[]>
  }
}

export function createDispatch(db: Database, operations: ItemOperations): Dispatch {
  async function configure(dispatch: DispatchOf, settings: DispatchSettings, by: By): Promise<void> {
    const itemType = itemTypeOf('dispatch.configure', dispatch)
    const actor = checkBy('dispatch.configure', by)
    const changes = checkSettings(`dispatch.configure ${itemType}`, settings)
    await operatorCall(db, `configure ${itemType}`, (tx) => configureDispatch(tx, itemType, changes, actor))
    if (settings.enabled === false) await nothingBegins(db, itemType)
  }

  return {
    configure,
    async config(dispatch) {
      const itemType = itemTypeOf('dispatch.config', dispatch)
      const config = await readConfig(db, itemType)
      if (!config) throw new HoldfastError('HF_UNKNOWN_ITEM_TYPE', { itemType })
      return config
    },
    configs: () => listConfigs(db),
    pause: (dispatch, by) => configure(dispatch, { enabled: false }, by),
    async resume(dispatch, by) {
      const itemType = itemTypeOf('dispatch.resume', dispatch)
      const actor = checkBy('dispatch.resume', by)
      await operatorCall(db, `resume ${itemType}`, (tx) => resumeDispatch(tx, itemType, actor))
    },
    plan: (dispatch, options) => planOf(db, dispatch, options),
    depth: async (dispatch) => countItems(db, itemTypeOf('dispatch.depth', dispatch)),
    reportEnd: (dispatch, ends) => reportEnd(db, dispatch, ends),
    cancelMany: async (dispatch, which, by, options) =>
      operations.many(operations.cancelling(dispatch, by, options), which),
    rescheduleMany: async (dispatch, which, by, change) =>
      operations.many(await operations.rescheduling(dispatch, by, change), which),
    expediteMany: async (dispatch, which, by) => operations.many(operations.expediting(dispatch, by), which),
    items: {
      list: async (dispatch, filter) => listItems(db, checkFilter(itemTypeOf('items.list', dispatch), filter)),
    },
  }
}

function checkFilter(itemType: string, filter: ItemListFilter = {}) {
  const where = 'dispatch.items.list'
  const given = checkOptions(where, filter, ['status', 'batchId', 'from', 'until', 'limit'])
  return {
    itemType,
    status: choiceOption(where, 'status', given.status, dispatchStatuses, { default: undefined }),
    batchId: given.batchId === undefined ? undefined : parseId(`${where}: batchId`, given.batchId),
    from: dateOption(where, 'from', given.from, { default: undefined }),
    until: dateOption(where, 'until', given.until, { default: undefined }),
    limit: integerOption(where, 'limit', given.limit, { min: 1, default: 100 }),
  }
}
