import { coded } from '../kernel/database/coded.js'
import type { InstalledModel } from '../kernel/model/model.js'
import type { Runtime } from '../kernel/model/runtime.js'
import type { OpenProcesses } from '../processes/index.js'
import type { OpenWorkflows } from '../workflows/index.js'
import { createDispatchBulk } from './bulk.js'
import { dispatchChores } from './chores.js'
import { createDispatch } from './dispatch.js'
import { createItemCalls } from './items.js'
import { createItemOperations, type Executions } from './operations.js'
import { createDispatchRegistry } from './registry.js'
import { createScheduling } from './schedule.js'
import { dispatchWork } from './worker.js'

interface Below {
  readonly processes: OpenProcesses
  readonly workflows: OpenWorkflows
}

/** Scheduled work, as an installation has it. What it releases is a process, a workflow, or runs elsewhere. */
export function openDispatch(runtime: Runtime, { processes, workflows }: Below) {
  const { db, codec } = runtime
  const registry = createDispatchRegistry()
  const executions: Executions = {
    cancelProcess(name, id, by, options) {
      const slash = name.indexOf('/')
      const reference = { domain: name.slice(0, slash), type: name.slice(slash + 1) }
      return processes.operations.cancel(reference, id, by, options)
    },
    cancelWorkflow: (id, by, options) => workflows.client.workflow(id).cancel(by, options),
    whyWorkflow: (id) => workflows.client.workflow(id).why(),
    find: registry.find,
  }
  const operations = createItemOperations(db, codec, executions)
  const items = coded(createItemCalls(db, { ...runtime, operations, executions }), db.schema, 'hf.item')
  const scheduling = createScheduling(db, { ...runtime, items })
  const model: InstalledModel = {
    name: 'dispatch',
    chores: dispatchChores,
    domains: registry.domains,
    has: (kind, name) =>
      kind === 'domain'
        ? registry.domains().includes(name)
        : kind === 'definition' && registry.find(name) !== undefined,
    work: (worker) => dispatchWork(runtime, { registry, workflows: workflows.engine }, worker),
    close: scheduling.close,
  }
  return { model, registry, items, scheduling, namespace: createDispatch(db, operations), bulk: createDispatchBulk(db) }
}
