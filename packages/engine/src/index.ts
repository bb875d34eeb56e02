export {
  type Batch,
  type BatchSummary,
  type CommandContext,
  type CommandDefinition,
  type CommandHandle,
  type CommandHandler,
  type CommandRecord,
  type CommandStatus,
  defineCommand,
  type SendOptions,
} from './commands/index.js'
export {
  type DispatchDefinition,
  type DispatchItem,
  type DispatchStatus,
  defineDispatch,
  type ExecutionStart,
  type ExecutionState,
  type ExecutionTarget,
  type ItemHandle,
  processTarget,
  type StartOutcome,
  type TargetCall,
  workflowTarget,
} from './dispatch/index.js'
export { type Holdfast, holdfast } from './holdfast.js'
export type { By, RecordedAuditEntry } from './kernel/audit/audit.js'
export { type Codec, type CodecOptions, createCodec } from './kernel/codec/codec.js'
export { type CodecType, defineType, type Json } from './kernel/codec/type.js'
export type { Queryable } from './kernel/database/executor.js'
export type { Duration } from './kernel/duration/duration.js'
export { type ErrorCode, type ErrorDetails, HoldfastError } from './kernel/errors.js'
export { BusinessError, PermanentError, TransientError } from './kernel/failure/failure-errors.js'
export type { Logger } from './kernel/logger.js'
export type { MetricLabels, Metrics } from './kernel/metrics/metrics.js'
export type { BulkResult } from './kernel/model/bulk.js'
export type { Model } from './kernel/model/handle.js'
export type { Page } from './kernel/model/page.js'
export type { Why } from './kernel/model/why.js'
export type { Pause, PauseSubject } from './kernel/pausing/pausing.js'
export type { Retry } from './kernel/retry/retry-option.js'
export type { RateLimit, RateLimitOptions, RateLimits } from './limiter/index.js'
export type { HoldfastOptions } from './options.js'
export {
  type CompensationCall,
  defineManager,
  defineProcess,
  type ManagerDefinition,
  type ProcessContext,
  type ProcessDefinition,
  type ProcessHandle,
  type ProcessRecord,
  type ProcessStatus,
  resultOf,
  type StartOptions,
  type StepCall,
  type StepCommand,
  StepFailed,
  type StepOptions,
  type StepReply,
  stepCommand,
  type WaitOptions,
} from './processes/index.js'
export type { QueueClient, QueueMessage } from './queue/index.js'
export type { Trouble, TroubleFilter, TroubleGroup } from './trouble/index.js'
export type { Worker, WorkerOptions } from './worker.js'
export {
  defineWorkflow,
  handlersOf,
  type InstanceStatus as WorkflowStatus,
  loadWorkflow,
  ofType,
  renderMermaid,
  renderText,
  type StepContext,
  type StepHandler,
  type Workflow,
  type WorkflowDefinition,
  type WorkflowHandle,
  type WorkflowHooks,
  type WorkflowRecord,
} from './workflows/index.js'
