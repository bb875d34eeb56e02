export type { Batch, BatchStatus } from './batch.js'
export type { Batches, BatchSummary, CreateBatchOptions } from './batches.js'
export type { RetryCommandOptions } from './calls.js'
export type { CommandClient, CommandToSend, SendManyOptions } from './client.js'
export type { Commands } from './commands.js'
export type { CommandContext } from './context.js'
export { type CommandDefinition, type CommandOptions, defineCommand } from './define.js'
export { createDomains } from './domains.js'
export type { Envelope } from './envelope.js'
export type { CommandHandle, SentCommand } from './handle.js'
export { type OpenCommands, openCommands } from './model.js'
export type { Outgoing } from './outgoing.js'
export type { CommandFilter, CommandRecord } from './queries/find-commands.js'
export type { FailureGroup, TroubleFilter } from './queries/list-trouble.js'
export type { CommandOf } from './reference.js'
export {
  addHandler,
  type CommandHandler,
  type CommandHandlerOptions,
  type CommandInquire,
} from './registry.js'
export type { Sent } from './send-many.js'
export type { SendOptions } from './send-options.js'
export type { CommandStatus } from './states.js'
