import { createRegistry, type Inquiry, type Registry } from '../kernel/model/index.js'
import { callback, declareOptions } from '../kernel/validation/declared.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { functionOption } from '../kernel/validation/options.js'
import type { CommandContext } from './context.js'
import { type CommandDefinition, checkCommand, type DefinedCommand } from './define.js'

export type CommandHandler<Data, Result> = (data: Data, context: CommandContext) => Promise<Result> | Result

/**
 * Finds out the outcome of a call of a command with `atMostOnce`, by its idempotency key. Called after an error that is
 * not a refusal, after a timeout or a crash, and before a retry by an operator.
 */
export type CommandInquire<Data, Result> = (
  data: Data,
  call: Pick<CommandContext, 'commandId' | 'correlationId' | 'idempotencyKey' | 'signal' | 'logger'>,
) => Promise<Inquiry<Result>> | Inquiry<Result>

export interface CommandHandlerOptions<Data, Result> {
  readonly inquire?: CommandInquire<Data, Result>
}

export interface RegisteredHandler {
  readonly definition: DefinedCommand
  readonly handle: CommandHandler<unknown, unknown>
  readonly inquire: CommandInquire<unknown, unknown> | undefined
}

/** The handlers of a program. */
export type HandlerRegistry = Registry<RegisteredHandler>

export const createHandlerRegistry = (): HandlerRegistry =>
  createRegistry('commands', { named: ({ definition }) => definition })

const checkHandlerOptions = declareOptions({ inquire: callback<NonNullable<RegisteredHandler['inquire']>>() })

/** Checks a handler and its options, and registers it. */
export function addHandler<Input, Data, Result>(
  registry: HandlerRegistry,
  definition: CommandDefinition<Input, Data, Result>,
  handle: CommandHandler<Data, Result>,
  options: CommandHandlerOptions<Data, Result> = {},
): void {
  const defined = checkCommand('handle', definition)
  const where = `handle ${definition.domain}/${definition.type}`
  const handler = functionOption<RegisteredHandler['handle']>(where, 'handler', handle)
  const { inquire } = checkHandlerOptions(where, options)
  if (inquire !== undefined && !defined.atMostOnce) {
    throw invalidOption(where, 'inquire', 'is never asked: the command is not defined with `atMostOnce: true`')
  }
  // Inside, a handler gets what the schema of its command made; the types above hold it together.
  registry.add({ definition: defined, handle: handler, inquire })
}
