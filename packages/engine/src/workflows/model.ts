import type { InstalledModel, Runtime } from '../kernel/model/index.js'
import { createWorkflowBulk } from './bulk.js'
import { createWorkflowClient } from './client.js'
import { createWorkflowEngine } from './engine.js'
import { workflowChores, workflowWork } from './worker.js'
import { createWorkflows } from './workflows.js'

/** Workflows, as an installation has them. */
export function workflowModel(runtime: Runtime) {
  const { db } = runtime
  const engine = createWorkflowEngine(runtime)
  const client = createWorkflowClient(db, engine, runtime)
  const domains = () => [...new Set([...engine.registered, ...engine.handled].map(({ domain }) => domain))]
  const model: InstalledModel = {
    name: 'workflows',
    chores: workflowChores(runtime),
    domains,
    has(kind, name) {
      if (kind === 'domain') return domains().includes(name)
      if (kind === 'handler') return engine.handlers.find(name) !== undefined
      return kind === 'definition' && [...engine.registered].some((workflow) => workflow.name === name)
    },
    work: (worker) => workflowWork(runtime, engine, worker),
    async close() {
      await client.close()
      await engine.close()
    },
  }
  return { model, engine, client, namespace: createWorkflows(db, engine), bulk: createWorkflowBulk(db, engine) }
}

export type OpenWorkflows = ReturnType<typeof workflowModel>
