import { HoldfastError } from '../kernel/errors.js'
import { describe } from '../kernel/validation/describe.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import type { ProcessDefinition } from './define.js'

/** The definitions of this program, by name (`payments/Payment`). */
export interface ProcessRegistry {
  add(definition: ProcessDefinition): void
  find(name: string): ProcessDefinition | undefined
  inDomain(domain: string): readonly ProcessDefinition[]
  domains(): readonly string[]
}

export function createProcessRegistry(): ProcessRegistry {
  const definitions = new Map<string, ProcessDefinition>()
  return {
    add(definition) {
      if (typeof definition?.execute !== 'function') {
        throw invalidOption('register', 'definition', `must be made with defineProcess, not ${describe(definition)}`)
      }
      const known = definitions.get(definition.name)
      if (known && known !== definition) throw new HoldfastError('HF_DUPLICATE_PROCESS', { process: definition.name })
      definitions.set(definition.name, definition)
    },
    find: (name) => definitions.get(name),
    inDomain: (domain) => [...definitions.values()].filter((definition) => definition.domain === domain),
    domains: () => [...new Set([...definitions.values()].map(({ domain }) => domain))],
  }
}
