import {
  type BulkResult,
  type By,
  type CancelOptions,
  checkBy,
  type Database,
  liftPause,
  operatorCall,
  type Page,
} from '../kernel/model/index.js'
import { nothingBegins } from './kill-switch.js'
import { checkItemFilter, type ItemCountFilter, type ItemListFilter, pageOfItems } from './list-items.js'
import type { ItemOperations, RescheduleOptions, WhichItems } from './operations.js'
import { type DispatchPlan, type PlanOptions, planOf } from './plan.js'
import { configureDispatch, resumeDispatch } from './queries/configure-dispatch.js'
import { countItems, type Depth } from './queries/count-items.js'
import { type DispatchItem, findCount } from './queries/find-items.js'
import { type KnownDispatch, listDefinitions } from './queries/list-definitions.js'
import { listConfigs, readConfig } from './queries/read-config.js'
import type { ReportResult } from './queries/report-ends.js'
import { type DispatchOf, itemTypeOf, unknownDefinition } from './reference.js'
import { type ExecutionEnd, reportEnd } from './report-end.js'
import { checkSettings, type DispatchSettings } from './settings.js'
import { type DispatchSettingsRecord, toRecord } from './settings-record.js'

/** Scheduled work that is released at a rate: what concerns many items, and the settings of each type of items. */
export interface Dispatch {
  /**
   * Items, newest first, a page at a time.
   *
   * @example
   * const { items, cursor } = await hf.dispatch.list({ domain: 'payments', type: 'Settlement', status: 'READY' })
   */
  list(filter?: ItemListFilter): Promise<Page<DispatchItem>>
  count(filter?: ItemCountFilter): Promise<number>
  /** What the installation knows: every type of items that was registered or scheduled. */
  definitions(): Promise<readonly KnownDispatch[]>
  /**
   * Changes the named settings. The next cycle uses them.
   *
   * @example
   * await hf.dispatch.configure(Settlement, { batchSize: 1_000 }, { actor: 'ann', reason: 'the window is late' })
   */
  configure(dispatch: DispatchOf, settings: DispatchSettings, by: By): Promise<void>
  /** The settings of one definition, or of all. */
  settings(dispatch: DispatchOf): Promise<DispatchSettingsRecord>
  settings(): Promise<readonly DispatchSettingsRecord[]>
  /**
   * The kill switch: nothing more is released, and released processes and workflows that have not begun are held back. When it
   * returns, nothing that had not begun will begin. `hf.pauses()` lists it, and `hf.resume({ definition })` lifts it too.
   */
  pause(dispatch: DispatchOf, by: By): Promise<void>
  /** Switches it on again, lifts a pause of the definition, and lets a window that has stopped by itself (`tripAfter`) continue. */
  resume(dispatch: DispatchOf, by: By): Promise<void>
  /** How many items are due when, the rate of their release, and when the last one will be released; also for other settings. */
  plan(dispatch: DispatchOf, options?: PlanOptions): Promise<DispatchPlan>
  /** How many items have which status. */
  depth(dispatch: DispatchOf): Promise<Depth>
  /**
   * Records how executions on a remote target ended, as soon as the target knows, so that it need not be asked. Returns for each
   * the result of the report.
   *
   * @example
   * await hf.dispatch.reportEnd(Settlement, { executionId, status: 'COMPLETED' })
   */
  reportEnd(dispatch: DispatchOf, ends: ExecutionEnd | readonly ExecutionEnd[]): Promise<readonly ReportResult[]>
  /**
   * Cancels many items, each as `hf.item(…).cancel` does. Returns a result for each.
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
  /** Makes many READY items due now, before all others; the rate applies to them too. */
  expediteMany(dispatch: DispatchOf, which: WhichItems, by: By): Promise<readonly BulkResult[]>
}

export function createDispatch(db: Database, operations: ItemOperations): Dispatch {
  async function configure(dispatch: DispatchOf, settings: DispatchSettings, by: By): Promise<void> {
    const itemType = itemTypeOf('dispatch.configure', dispatch)
    const actor = checkBy('dispatch.configure', by)
    const changes = checkSettings(`dispatch.configure ${itemType}`, settings)
    await operatorCall(db, `configure ${itemType}`, (tx) => configureDispatch(tx, itemType, changes, actor))
    if (settings.enabled === false) await nothingBegins(db, itemType)
  }

  async function settings(dispatch?: DispatchOf) {
    if (dispatch === undefined) return (await listConfigs(db)).map(toRecord)
    const itemType = itemTypeOf('dispatch.settings', dispatch)
    const config = await readConfig(db, itemType)
    if (!config) throw unknownDefinition(itemType)
    return toRecord(config)
  }

  return {
    list: (filter) => pageOfItems(db, filter),
    count: async (filter) => findCount(db, checkItemFilter('dispatch.count', filter)),
    definitions: () => listDefinitions(db),
    configure,
    settings: settings as Dispatch['settings'],
    pause: (dispatch, by) => configure(dispatch, { enabled: false }, by),
    async resume(dispatch, by) {
      const itemType = itemTypeOf('dispatch.resume', dispatch)
      const actor = checkBy('dispatch.resume', by)
      await operatorCall(db, `resume ${itemType}`, async (tx) => {
        await resumeDispatch(tx, itemType, actor)
        await liftPause(tx, `definition:${itemType}`, actor)
      })
    },
    plan: (dispatch, options) => planOf(db, dispatch, options),
    depth: async (dispatch) => countItems(db, itemTypeOf('dispatch.depth', dispatch)),
    reportEnd: (dispatch, ends) => reportEnd(db, dispatch, ends),
    cancelMany: async (dispatch, which, by, options) =>
      operations.many(operations.cancelling(dispatch, by, options), which),
    rescheduleMany: async (dispatch, which, by, change) =>
      operations.many(await operations.rescheduling(dispatch, by, change), which),
    expediteMany: async (dispatch, which, by) => operations.many(operations.expediting(dispatch, by), which),
  }
}
