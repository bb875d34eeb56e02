export {
  type Batch,
  type Batches,
  type BatchStatus,
  type BatchSummary,
  type BulkAnswer,
  type CommandContext,
  type CommandDefinition,
  type CommandFilter,
  type CommandHandler,
  type CommandOptions,
  type CommandRecord,
  type CommandStatus,
  type Commands,
  type CommandToSend,
  type CreateBatchOptions,
  defineCommand,
  type FailureGroup,
  type SendManyOptions,
  type SendOptions,
  type TroubledCommand,
  type TroubleFilter,
  type Troubleshooting,
} from './commands/index.js'
export { type Holdfast, type HoldfastOptions, holdfast } from './holdfast.js'
export type { Actor, RecordedAuditEntry } from './kernel/audit/audit.js'
export { type Codec, type CodecOptions, createCodec, type Encoded, type Stored } from './kernel/codec/codec.js'
export type { Notes } from './kernel/codec/notes.js'
export { type CodecType, defineType, type Json } from './kernel/codec/type.js'
export type { Queryable } from './kernel/database/executor.js'
export type { Duration } from './kernel/duration/duration.js'
export { type ErrorCode, type ErrorDetails, HoldfastError } from './kernel/errors.js'
export { BusinessError, PermanentError, TransientError } from './kernel/failure/failure-errors.js'
export type { Logger } from './kernel/logger.js'
export type { MetricLabels, Metrics } from './kernel/metrics/metrics.js'
export type { Pause, PauseSubject } from './kernel/pausing/pausing.js'
export type { AcquireOptions, RateLimit, RateLimitOptions, RateLimits } from './limiter/index.js'
export {
  type BulkOperationAnswer,
  type CancelOptions,
  type ChildOptions,
  type CommandCallOptions,
  type Compensation,
  type CompleteOptions,
  type Correction,
  type DeadlineAction,
  defineManager,
  defineProcess,
  type Inquiry,
  type ManagerDefinition,
  type ManagerOptions,
  type ManagerStartDetails,
  type ManagerStartOptions,
  type OnFailure,
  type OnTimeout,
  type ProcessContext,
  type ProcessDefinition,
  type ProcessEnd,
  type Processes,
  type ProcessListFilter,
  type ProcessOf,
  type ProcessOperations,
  type ProcessOptions,
  type ProcessRecord,
  type ProcessSettingsInput,
  type ProcessSettingsRecord,
  type ProcessStatus,
  type ProcessToStart,
  type RespondOptions,
  type ResponseSchemas,
  type RetryOptions,
  resultOf,
  type StartDetails,
  type Started,
  type StartOptions,
  type StepCall,
  type StepCommand,
  type StepCommandOptions,
  StepFailed,
  type StepOptions,
  type StepReply,
  stepCommand,
  type TimelineEntry,
  type TimelineEvent,
  type TimelineType,
  type TransactionOptions,
  type TroubledProcess,
  type WaitOptions,
  type WhichProcesses,
} from './processes/index.js'
export type {
  PollOptions as QueuePollOptions,
  QueueClient,
  QueueDescription,
  QueueHeaders,
  QueueInfo,
  QueueMessage,
  QueueMetrics,
  ReadOptions as QueueReadOptions,
  SendBatchOptions as QueueSendBatchOptions,
  SendOptions as QueueSendOptions,
} from './queue/index.js'
export type { DomainWorker, Worker, WorkerOptions } from './worker.js'
