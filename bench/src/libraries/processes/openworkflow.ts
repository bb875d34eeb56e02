import { setTimeout as sleep } from 'node:timers/promises'
import { OpenWorkflow } from 'openworkflow'
import { BackendPostgres } from 'openworkflow/postgres'
import { versionOf } from '../../harness/version.js'
import { atOnce } from './at-once.js'
import { type Body, PROCESS, type ProcessHost, type ProcessLibrary } from './process-library.js'

const ASK_EVERY_MS = 1
const FILLERS = 20

export interface OpenWorkflowConfig {
  readonly concurrency: number
  readonly connections: number
}

/** Its worker asks again after 50 to 100 ms, later less often; that cannot be set. */
export function openworkflow(config: OpenWorkflowConfig): ProcessLibrary {
  return {
    name: 'openworkflow',
    version: versionOf('openworkflow'),
    role: 'peer',
    config: { ...config },
    anythingLeft: "select exists (select from openworkflow.workflow_runs where status <> 'completed')",
    waiting: `
      select count(*)::int
      from openworkflow.step_attempts attempt
      join openworkflow.workflow_runs run on run.id = attempt.workflow_run_id
      where attempt.kind = 'signal-wait' and attempt.status = 'running' and run.worker_id is null`,
    install: async (connectionString) => (await connect(connectionString, 1)).stop(),
    fill,
    open: (connectionString, body) => open(connectionString, body, config),
  }
}

async function fill(connectionString: string, processes: number, from: number): Promise<void> {
  const backend = await connect(connectionString, FILLERS)
  try {
    const client = new OpenWorkflow({ backend })
    await atOnce(FILLERS, processes, (offset) => client.runWorkflow({ name: PROCESS }, { place: from + offset }))
  } finally {
    await backend.stop()
  }
}

async function open(
  connectionString: string,
  body: Body,
  { concurrency, connections }: OpenWorkflowConfig,
): Promise<ProcessHost> {
  const backend = await connect(connectionString, connections)
  const client = new OpenWorkflow({ backend })
  const workflow = client.defineWorkflow<{ place: number }, void>({ name: PROCESS }, ({ input: { place }, step }) =>
    body(
      {
        step: (name) => step.run({ name }, async () => 1),
        response: () => step.waitForSignal({ signal: signalOf(place), timeout: '1h' }),
      },
      place,
    ),
  )
  const worker = client.newWorker({ concurrency })
  return {
    run: () => worker.start(),
    start: async (place) => (await workflow.run({ place })).workflowRun.id,
    // The result of its handle is asked for once a second.
    async ended(workflowRunId) {
      while ((await backend.getWorkflowRun({ workflowRunId }))?.status !== 'completed') await sleep(ASK_EVERY_MS)
    },
    async respondAll(places) {
      await Promise.all(places.map((place) => client.sendSignal({ signal: signalOf(place), data: 'answer' })))
    },
    async close() {
      await worker.stop()
      await backend.stop()
    },
  }
}

/** It takes the size of its pool from the address only. */
function connect(connectionString: string, connections: number): Promise<BackendPostgres> {
  const url = new URL(connectionString)
  url.searchParams.set('max', String(connections))
  return BackendPostgres.connect(url.href)
}

const signalOf = (place: number) => `answer:${place}`
