import type { Inquiry } from '../kernel/calls/inquiry.js'
import { HoldfastError } from '../kernel/errors.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { checkOptions, functionOption } from '../kernel/validation/options.js'
import type { CommandContext } from './context.js'
import { type CommandDefinition, checkCommand } from './define.js'

export type CommandHandler<Data, Result> = (data: Data, context: CommandContext) => Promise<Result> | Result

/**
 * Finds out what became of a call of a command with `atMostOnce` (K-20), by its idempotency key. Asked after an error that is
 * no refusal, after a timeout or a crash, and before a retry by an operator.
 */
export type CommandInquire<Data, Result> = (
  data: Data,
  call: Pick<CommandContext, 'commandId' | 'correlationId' | 'idempotencyKey' | 'signal' | 'logger'>,
) => Promise<Inquiry<Result>> | Inquiry<Result>

export interface CommandHandlerOptions<Data, Result> {
  readonly inquire?: CommandInquire<Data, Result>
}

export interface RegisteredHandler {
  readonly definition: CommandDefinition
  readonly handle: CommandHandler<unknown, unknown>
  readonly inquire: CommandInquire<unknown, unknown> | undefined
}

/** The handlers of a process, by domain and type (C-06). */
export interface HandlerRegistry {
  add<Input, Data, Result>(
    definition: CommandDefinition<Input, Data, Result>,
    handle: CommandHandler<Data, Result>,
    options?: CommandHandlerOptions<Data, Result>,
  ): void
  find(domain: string, type: string): RegisteredHandler | undefined
  types(domain: string): readonly string[]
  domains(): readonly string[]
}

export function createHandlerRegistry(): HandlerRegistry {
  const domains = new Map<string, Map<string, RegisteredHandler>>()
  return {
    add(definition, handle, options = {}) {
      checkCommand('handle', definition)
      const { domain, type, atMostOnce } = definition
      const where = `handle ${domain}/${type}`
      const handlers = domains.get(domain) ?? new Map()
      functionOption(where, 'handler', handle)
      const { inquire } = checkOptions(where, options, ['inquire'])
      functionOption(where, 'inquire', inquire, { default: undefined })
      if (inquire !== undefined && !atMostOnce) {
        throw invalidOption(where, 'inquire', 'is never asked: the command is not defined with `atMostOnce: true`')
      }
      if (handlers.has(type)) throw new HoldfastError('HF_DUPLICATE_HANDLER', { domain, type })
      domains.set(domain, handlers.set(type, { definition, handle, inquire }))
    },
    find: (domain, type) => domains.get(domain)?.get(type),
    types: (domain) => [...(domains.get(domain)?.keys() ?? [])],
    domains: () => [...domains.keys()],
  }
}
