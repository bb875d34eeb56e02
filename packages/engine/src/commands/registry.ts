import { HoldfastError } from '../kernel/errors.js'
import { describe } from '../kernel/validation/describe.js'
import type { CommandContext } from './context.js'
import type { CommandDefinition } from './define.js'

export type CommandHandler<Data, Result> = (data: Data, context: CommandContext) => Promise<Result> | Result

export interface RegisteredHandler {
  readonly definition: CommandDefinition
  readonly handle: CommandHandler<unknown, unknown>
}

/** The handlers of a process, by domain and type (C-06). */
export interface HandlerRegistry {
  add<Input, Data, Result>(
    definition: CommandDefinition<Input, Data, Result>,
    handle: CommandHandler<Data, Result>,
  ): void
  find(domain: string, type: string): RegisteredHandler | undefined
  types(domain: string): readonly string[]
  domains(): readonly string[]
}

export function createHandlerRegistry(): HandlerRegistry {
  const domains = new Map<string, Map<string, RegisteredHandler>>()
  return {
    add(definition, handle) {
      const { domain, type } = definition
      const handlers = domains.get(domain) ?? new Map()
      if (typeof handle !== 'function') {
        const problem = `must be a function, not ${describe(handle)}`
        throw new HoldfastError('HF_INVALID_OPTION', { where: `handle ${domain}/${type}`, option: 'handler', problem })
      }
      if (handlers.has(type)) throw new HoldfastError('HF_DUPLICATE_HANDLER', { domain, type })
      domains.set(domain, handlers.set(type, { definition, handle }))
    },
    find: (domain, type) => domains.get(domain)?.get(type),
    types: (domain) => [...(domains.get(domain)?.keys() ?? [])],
    domains: () => [...domains.keys()],
  }
}
