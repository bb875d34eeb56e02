import type { InstalledModel } from '../kernel/model/model.js'
import type { Runtime } from '../kernel/model/runtime.js'
import type { WorkflowEngine } from './engine.js'
import { workflowChores, workflowWork } from './worker.js'

export function workflowModel(runtime: Runtime, engine: WorkflowEngine): InstalledModel {
  const domains = () => [...new Set([...engine.registered, ...engine.handled].map(({ domain }) => domain))]
  return {
    name: 'workflows',
    chores: workflowChores(runtime),
    domains,
    has(kind, name) {
      if (kind === 'domain') return domains().includes(name)
      if (kind === 'handler') return engine.handlers.find(name) !== undefined
      return kind === 'definition' && [...engine.registered].some((workflow) => workflow.name === name)
    },
    work: (worker) => workflowWork(runtime, engine, worker),
  }
}
