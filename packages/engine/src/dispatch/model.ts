import type { InstalledModel } from '../kernel/model/model.js'
import type { Runtime } from '../kernel/model/runtime.js'
import type { WorkflowEngine } from '../workflows/index.js'
import { dispatchChores } from './chores.js'
import type { DispatchRegistry } from './registry.js'
import { dispatchWork } from './worker.js'

interface Parts {
  readonly registry: DispatchRegistry
  readonly workflows: WorkflowEngine
}

export function dispatchModel(runtime: Runtime, parts: Parts): InstalledModel {
  const { registry } = parts
  return {
    name: 'dispatch',
    chores: dispatchChores,
    domains: registry.domains,
    has: (kind, name) =>
      kind === 'domain'
        ? registry.domains().includes(name)
        : kind === 'definition' && registry.find(name) !== undefined,
    work: (worker) => dispatchWork(runtime, parts, worker),
  }
}
