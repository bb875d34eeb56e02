export {
  createProcessClient,
  type ProcessClient,
  type ProcessToStart,
  type Started,
  type StartOptions,
} from './client.js'
export type {
  ChildOptions,
  CommandCallOptions,
  Compensation,
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
export { defineProcess, type ProcessDefinition, type ProcessEnd, type ProcessOptions } from './define.js'
export { createProcessEngine, type ProcessEngine } from './engine.js'
export { createStarterExecutions } from './immediate.js'
export type { RespondOptions } from './respond.js'
export type { StartDetails } from './seal-start.js'
export type { DeadlineAction, ProcessStatus } from './states.js'
export { StepFailed } from './step-failed.js'
export { createProcessLoops } from './worker.js'
