import type { Executor } from '../../kernel/model/index.js'
import { handlersOf, type WorkflowDefinition } from '../definition/definition.js'
import { loadWorkflow } from '../definition/load.js'

/** A workflow that the installation knows: a version that was stored, and how many live workers have each of its handlers. */
export interface KnownWorkflow {
  readonly domain: string
  readonly type: string
  readonly version: number
  readonly storedAt: Date
  /** Workers that are alive and have at least one handler that it uses. */
  readonly liveWorkers: number
  /** Handlers that it uses and no live worker has. */
  readonly missingHandlers: readonly string[]
}

interface Row {
  readonly body: unknown
  readonly storedAt: Date
}

interface Present {
  readonly handler: string
  readonly worker: string
}

/** All stored workflows, by name and version. */
export async function findDefinitions(executor: Executor): Promise<KnownWorkflow[]> {
  const [rows, present] = await Promise.all([
    executor.run<Row & object>(definitionsStatement),
    executor.run<Present & object>(presentStatement),
  ])
  const workers = new Map<string, Present[]>()
  for (const one of present) workers.set(one.handler, [...(workers.get(one.handler) ?? []), one])
  return rows.map(({ body, storedAt }) => known(loadWorkflow(body), storedAt, workers))
}

function known(
  workflow: WorkflowDefinition,
  storedAt: Date,
  workers: ReadonlyMap<string, readonly Present[]>,
): KnownWorkflow {
  const { domain, type, version } = workflow
  const handlers = handlersOf(workflow)
  const live = new Set(handlers.flatMap((handler) => (workers.get(handler) ?? []).map(({ worker }) => worker)))
  const missingHandlers = handlers.filter((handler) => !workers.has(handler))
  return { domain, type, version, storedAt, liveWorkers: live.size, missingHandlers }
}

const definitionsStatement = {
  name: 'workflows.definitions',
  text: 'select body, created_at as "storedAt" from holdfast.workflow_definition order by name, version',
}
const presentStatement = {
  name: 'workflows.present-handlers',
  text: `
    select name as handler, worker
    from holdfast.worker_definition
    where model = 'workflows' and seen_at > holdfast.now() - interval '150 s'`,
}
