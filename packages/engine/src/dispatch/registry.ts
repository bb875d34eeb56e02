import { HoldfastError } from '../kernel/errors.js'
import type { DispatchDefinition } from './define.js'

/** The item types of this program. */
export interface DispatchRegistry {
  add(definition: DispatchDefinition<never>): void
  find(itemType: string): DispatchDefinition<never> | undefined
  /** The domains of their executions: a worker that only dispatches has them too. */
  domains(): readonly string[]
  /** Those whose executions are of these domains, and those that are workflows or executed elsewhere. */
  inDomains(domains: readonly string[]): readonly DispatchDefinition<never>[]
}

export function createDispatchRegistry(): DispatchRegistry {
  const definitions = new Map<string, DispatchDefinition<never>>()
  return {
    add(definition) {
      const known = definitions.get(definition.itemType)
      if (known && known !== definition) {
        throw new HoldfastError('HF_DUPLICATE_DISPATCH', { itemType: definition.itemType })
      }
      definitions.set(definition.itemType, definition)
    },
    find: (itemType) => definitions.get(itemType),
    domains: () =>
      [...definitions.values()].flatMap(({ target }) => ('process' in target ? target.process.domain : [])),
    inDomains: (domains) =>
      [...definitions.values()].filter(
        ({ target }) => !('process' in target) || domains.includes(target.process.domain),
      ),
  }
}
