import type { Outgoing } from '../commands/index.js'
import type { InstalledModel } from '../kernel/model/model.js'
import type { Runtime } from '../kernel/model/runtime.js'
import type { ProcessEngine } from './engine.js'
import { processWork } from './worker.js'

interface Parts {
  readonly engine: ProcessEngine
  readonly outgoing: Outgoing
}

export function processModel(runtime: Runtime, parts: Parts): InstalledModel {
  const registries = [parts.engine.registry, parts.engine.managers]
  const domains = () => registries.flatMap((registry) => registry.domains())
  return {
    name: 'processes',
    chores: {},
    domains,
    has(kind, name) {
      if (kind === 'domain') return domains().includes(name)
      return kind === 'definition' && registries.some((registry) => registry.find(name) !== undefined)
    },
    work: (worker) => processWork(runtime, parts, worker),
  }
}
