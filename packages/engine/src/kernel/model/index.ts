// What the kernel gives a model. Models import its rooms that do I/O only through this file, and its pure rooms (codec, duration,
// errors, failure, ids, retry, validation) directly; .dependency-cruiser.cjs checks it.

export { type By, checkBy, type RecordedAuditEntry, readAudit } from '../audit/audit.js'
export { type Batcher, createBatcher } from '../batching/batcher.js'
export type { Outcome } from '../batching/flusher.js'
export { type Answered, type Inquiry, inquire } from '../calls/inquiry.js'
export { callLimited, LazySignal } from '../calls/limited.js'
export { type CallOutcome, type CompensateIf, mustCompensate, outcomeOfFailure } from '../calls/outcome.js'
export type { Chores } from '../chores/chores.js'
export { coded, codedAsync } from '../database/coded.js'
export type { Database } from '../database/database.js'
export type { Executor, Queryable, Statement } from '../database/executor.js'
export {
  createLockBudget,
  type LockBudget,
  lockedByOther,
  operatorCall,
  operatorCallForMany,
} from '../database/operator-call.js'
export { GIVE_UP_AFTER, withDatabaseRetry } from '../database/retrying.js'
export { codeOf, isTransient } from '../database/transient.js'
export type { Logger } from '../logger.js'
export { type MetricLabels, type Metrics, noMetrics } from '../metrics/metrics.js'
export type { Listener } from '../notify/listener.js'
export { createTopics, type Topics } from '../notify/topics.js'
export { liftPause, type Pause } from '../pausing/pausing.js'
export type { WorkerDefinition } from '../presence/presence.js'
export type { Reported, ReportedEnd, Reports } from '../reports/reports.js'
export {
  GONE_AFTER,
  knownDefinitions,
  type MissingWorkers,
  missingWorker,
  PAUSED,
  presenceIn,
} from '../results/presence.js'
export type { ResultSource, Results, Settled } from '../results/results.js'
export type { Gate } from '../work/alone.js'
export { startHeartbeat } from '../work/heartbeat.js'
export { createLeases, type Lease } from '../work/leases.js'
export type { WorkLoop } from '../work/loop.js'
export { lossesOf } from '../work/losses.js'
export { leasesOfQueue } from '../work/queue-leases.js'
export { createSignal } from '../work/signal.js'
export {
  type Claimed,
  type ClaimRequest,
  type ClaimResult,
  claimParams,
  type LeaseRef,
  type LostClaim,
  type WorkSource,
} from '../work/source.js'
export { columnsOf, type Extended, leasesOfTable } from '../work/table-leases.js'
export {
  type BulkCall,
  type BulkDefinition,
  type BulkItem,
  type BulkOperator,
  type BulkOutcome,
  type BulkResult,
  createBulk,
  notInTrouble,
  type TroubleVerb,
} from './bulk.js'
export {
  createDecider,
  type Decided,
  type EventGroup,
  type EventOutcome,
  toWriteAnswer,
  type WriteAnswer,
} from './decider.js'
export { createDefined, type Defined } from './defined.js'
export type { DefinitionRecord } from './definition-record.js'
export {
  type CancelOptions,
  type Handle,
  type Model,
  models,
  type ResultOptions,
  type Started,
  type StartedOne,
} from './handle.js'
export { checkMany, chunksOf, isList } from './lists.js'
export type { InstalledModel, ModelWork, WorkerParts } from './model.js'
export {
  checkCancelOptions,
  checkResultOptions,
  type LaterStart,
  laterStart,
  listFilter,
  page,
  uuid,
} from './options.js'
export { type Page, type Place, readCursor, toPage } from './page.js'
export { createRegistry, duplicate, type Registry } from './registry.js'
export type { Runtime } from './runtime.js'
export { createWatch, type Watch } from './watch.js'
export type { Why } from './why.js'
export { definitionOf, notFound, workOf, wrongStatus } from './work.js'
