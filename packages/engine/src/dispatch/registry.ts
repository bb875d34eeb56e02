import { createRegistry, type Registry } from '../kernel/model/registry.js'
import type { DispatchDefinition } from './define.js'

/** The item types of this program. */
export interface DispatchRegistry extends Pick<Registry<DispatchDefinition<never>>, 'add' | 'find' | 'domains'> {
  /** Those whose executions are of these domains, and those that are workflows or executed elsewhere. */
  inDomains(domains: readonly string[]): readonly DispatchDefinition<never>[]
}

export function createDispatchRegistry(): DispatchRegistry {
  const registry: Registry<DispatchDefinition<never>> = createRegistry('dispatch', {
    named: ({ itemType }) => ({ type: itemType }),
    same: Object.is,
  })
  const domainOf = ({ target }: DispatchDefinition<never>) => ('process' in target ? target.process.domain : undefined)
  return {
    add: registry.add,
    find: registry.find,
    // Those of their executions: a worker that only dispatches has them too.
    domains: () => registry.all().flatMap((definition) => domainOf(definition) ?? []),
    inDomains: (domains) =>
      registry.all().filter((definition) => {
        const domain = domainOf(definition)
        return domain === undefined || domains.includes(domain)
      }),
  }
}
