import { splitName } from '../kernel/ids/name.js'
import { coded, type InstalledModel, type Runtime } from '../kernel/model/index.js'
import { ProcessHandle } from '../processes/index.js'
import type { OpenProcesses } from '../processes/model.js'
import type { OpenWorkflows } from '../workflows/model.js'
import { createDispatchBulk } from './bulk.js'
import { dispatchChores } from './chores.js'
import { createDispatch } from './dispatch.js'
import { createItemCalls } from './items.js'
import { createItemOperations, type Executions } from './operations.js'
import type { OwnExecution } from './queries/operate-items.js'
import { createDispatchRegistry } from './registry.js'
import { createScheduling } from './schedule.js'
import { dispatchWork } from './worker.js'

interface Below {
  readonly processes: OpenProcesses
  readonly workflows: OpenWorkflows
}

/** Scheduled work, as an installation has it. What it releases is a process, a workflow, or runs elsewhere. */
export function dispatchModel(runtime: Runtime, { processes, workflows }: Below) {
  const { db, codec } = runtime
  const registry = createDispatchRegistry()
  const executionOf = ({ model, type, id }: OwnExecution) => {
    if (model === 'workflows') return workflows.client.workflow(id)
    return new ProcessHandle(processes.calls, splitName(type), id)
  }
  const executions: Executions = {
    cancel: (execution, by, options) => executionOf(execution).cancel(by, options),
    why: (execution) => executionOf(execution).why(),
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
