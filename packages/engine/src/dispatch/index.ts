export { checksOf, runChecks } from './cycle/checks.js'
export { runCycle } from './cycle/cycle.js'
export { createMarks } from './cycle/marks.js'
export {
  type DefinedDispatch,
  type DispatchDefinition,
  defineDispatch,
  definedDispatch,
  type ProcessDispatchOptions,
  type RemoteDispatchOptions,
  type WorkflowDispatchOptions,
} from './define.js'
export type { Dispatch } from './dispatch.js'
export type { DueMinute, Forecast } from './forecast.js'
export { ItemHandle, type ScheduledItem } from './item-handle.js'
export { checkItemKey } from './items.js'
export { nothingBegins } from './kill-switch.js'
export type { ItemCountFilter, ItemListFilter } from './list-items.js'
export { dispatchModel } from './model.js'
export type { RescheduleOptions, RetryItemOptions, WhichItems } from './operations.js'
export type { DispatchPlan, PlanOptions } from './plan.js'
export type { Depth } from './queries/count-items.js'
export type { DispatchItem, DispatchItemDetails } from './queries/find-items.js'
export type { KnownDispatch } from './queries/list-definitions.js'
export type { ReportResult } from './queries/report-ends.js'
export type { DispatchOf } from './reference.js'
export type { ExecutionEnd } from './report-end.js'
export type { ItemToSchedule, Scheduled, ScheduleOptions, Scheduling } from './schedule.js'
export type { DispatchSettings } from './settings.js'
export type { DispatchSettingsRecord, TargetKind } from './settings-record.js'
export type { DispatchStatus } from './states.js'
export { type ProcessTarget, processTarget } from './targets/process.js'
export { type WorkflowTarget, workflowTarget } from './targets/workflow.js'
export type { ExecutionStart, ExecutionState, ExecutionTarget, StartOutcome, TargetCall } from './targets.js'
