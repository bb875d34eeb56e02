import { HoldfastError } from '../../kernel/errors.js'
import type { ManagerDefinition } from './define.js'
import { type Handlers, handlersOf } from './handlers.js'

export interface RegisteredManager {
  readonly definition: ManagerDefinition
  readonly handlers: Handlers
}

/** The managers of this program, by name (`orders/Order`). */
export interface ManagerRegistry {
  add(definition: ManagerDefinition): void
  find(name: string): RegisteredManager | undefined
  inDomain(domain: string): readonly ManagerDefinition[]
  domains(): readonly string[]
}

export function createManagerRegistry(): ManagerRegistry {
  const managers = new Map<string, RegisteredManager>()
  const all = () => [...managers.values()].map(({ definition }) => definition)
  return {
    add(definition) {
      const known = managers.get(definition.name)
      if (known && known.definition !== definition) {
        throw new HoldfastError('HF_DUPLICATE_PROCESS', { process: definition.name })
      }
      managers.set(definition.name, { definition, handlers: handlersOf(definition) })
    },
    find: (name) => managers.get(name),
    inDomain: (domain) => all().filter((definition) => definition.domain === domain),
    domains: () => [...new Set(all().map(({ domain }) => domain))],
  }
}
