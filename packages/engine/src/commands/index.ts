export type { Batch, BatchStatus } from './batch.js'
export { type Batches, type BatchSummary, type CreateBatchOptions, createBatches } from './batches.js'
export { createCommandBulk } from './bulk.js'
export { type CommandCalls, createCommandCalls, type RetryCommandOptions } from './calls.js'
export { type CommandClient, type CommandToSend, createCommandClient, type SendManyOptions } from './client.js'
export { type CommandListFilter, type Commands, createCommands } from './commands.js'
export type { CommandContext } from './context.js'
export { type CommandDefinition, type CommandOptions, defineCommand } from './define.js'
export { createDomains, type Domains } from './domains.js'
export type { Envelope } from './envelope.js'
export type { CommandHandle, SentCommand } from './handle.js'
export { commandModel } from './model.js'
export { type CommandOperations, createCommandOperations } from './operations.js'
export { createOutgoing, type Outgoing } from './outgoing.js'
export type { CommandRecord } from './queries/find-commands.js'
export type { CommandOf } from './reference.js'
export {
  addHandler,
  type CommandHandler,
  type CommandHandlerOptions,
  type CommandInquire,
  createHandlerRegistry,
  type HandlerRegistry,
} from './registry.js'
export type { Sent } from './send-many.js'
export type { SendOptions } from './send-options.js'
export type { CommandStatus } from './states.js'
