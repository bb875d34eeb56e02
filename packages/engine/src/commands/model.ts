import type { InstalledModel } from '../kernel/model/model.js'
import type { Runtime } from '../kernel/model/runtime.js'
import type { Domains } from './domains.js'
import type { HandlerRegistry } from './registry.js'
import { commandChores } from './sweep.js'
import { commandWork } from './worker.js'

interface Parts {
  readonly registry: HandlerRegistry
  readonly queues: Domains
}

export function commandModel(runtime: Runtime, parts: Parts): InstalledModel {
  const { registry } = parts
  return {
    name: 'commands',
    chores: commandChores(runtime.reports),
    domains: registry.domains,
    has(kind, name) {
      if (kind === 'domain') return registry.domains().includes(name)
      if (kind === 'definition') return registry.find(name) !== undefined
      return registry.all().some(({ definition }) => definition.type === name)
    },
    work: (worker) => commandWork(runtime, parts, worker),
  }
}
