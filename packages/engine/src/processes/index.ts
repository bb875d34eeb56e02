export type { ProcessClient, StartOptions } from './client.js'
export type { CompleteOptions, CompleteStepOptions } from './completing.js'
export type {
  ChildOptions,
  CommandCallOptions,
  Compensation,
  CompensationCall,
  Inquiry,
  OnFailure,
  OnTimeout,
  ProcessContext,
  ResponseSchemas,
  StepCall,
  StepOptions,
  TransactionOptions,
  WaitOptions,
} from './context.js'
export {
  definedProcess,
  defineProcess,
  type ProcessDefinition,
  type ProcessEnd,
  type ProcessOptions,
  withExecute,
} from './define.js'
export { deadlineOf, type StartDetails } from './encode-start.js'
export { type HistoryOptions, ProcessHandle, type StartedProcess } from './handle.js'
export type { ManagerClient, ManagerStartOptions } from './managers/client.js'
export { defineManager, type ManagerDefinition, type ManagerOptions } from './managers/define.js'
export type { ManagerStartDetails } from './managers/encode-start.js'
export { type StepCommand, type StepCommandOptions, stepCommand } from './managers/step-command.js'
export { resultOf, type StepReply } from './managers/step-reply.js'
export { processModel } from './model.js'
export type { KnownProcess, Processes, ProcessListFilter } from './processes.js'
export type { ProcessRecord } from './queries/find-processes.js'
export type { ProcessOf } from './reference.js'
export type { RespondOptions } from './respond.js'
export type { Correction, RetryOptions } from './retry-options.js'
export type { ProcessSettingsInput, ProcessSettingsRecord } from './settings.js'
export type { ProcessToStart, StartManyOptions } from './start-many.js'
export type { DeadlineAction, ProcessStatus } from './states.js'
export { StepFailed } from './step-failed.js'
export type { TimelineEntry, TimelineEvent, TimelineType } from './timeline.js'
