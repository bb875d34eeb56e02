import { DBOS, DBOSClient } from '@dbos-inc/dbos-sdk'
import { versionOf } from '../../harness/version.js'
import { atOnce } from './at-once.js'
import { type Body, PROCESS, type ProcessHost, type ProcessLibrary } from './process-library.js'

const POLL_MS = 10
const NAME = 'bench'
/** Otherwise it hashes the code of its workflows, and the process that fills would have another version. */
const APPLICATION_VERSION = 'bench'
const WAIT_SECONDS = 3600
const FILLERS = 20

export interface DbosConfig {
  readonly connections: number
}

/** Its queue has no limit of its own; a workflow that waits stays in the memory of its worker. */
export function dbos(config: DbosConfig): ProcessLibrary {
  return {
    name: 'DBOS',
    version: versionOf('@dbos-inc/dbos-sdk'),
    role: 'peer',
    config: { ...config, poll: `${POLL_MS} ms` },
    anythingLeft: "select exists (select from dbos.workflow_status where status <> 'SUCCESS')",
    // It records when a wait will time out before it begins to wait.
    waiting: `
      select count(*)::int
      from dbos.operation_outputs step
      join dbos.workflow_status workflow using (workflow_uuid)
      where step.function_name = 'DBOS.sleep' and workflow.status = 'PENDING'`,
    install: (connectionString) => DBOS.migrate(connectionString),
    fill,
    open: (connectionString, body) => open(connectionString, body, config),
  }
}

async function fill(connectionString: string, processes: number, from: number): Promise<void> {
  const client = await DBOSClient.create({
    systemDatabaseUrl: connectionString,
    systemDatabasePoolSize: FILLERS,
    applicationName: NAME,
  })
  try {
    await client.registerQueue(PROCESS, { minPollingIntervalMs: POLL_MS })
    await atOnce(FILLERS, processes, (offset) =>
      client.enqueue(
        {
          queueName: PROCESS,
          workflowName: PROCESS,
          workflowID: idOf(from + offset),
          appVersion: APPLICATION_VERSION,
        },
        from + offset,
      ),
    )
  } finally {
    await client.destroy()
  }
}

async function open(connectionString: string, body: Body, { connections }: DbosConfig): Promise<ProcessHost> {
  DBOS.setConfig({
    name: NAME,
    systemDatabaseUrl: connectionString,
    systemDatabasePoolSize: connections,
    applicationVersion: APPLICATION_VERSION,
    runMigrations: false,
    logLevel: 'error',
  })
  const tools = {
    step: (name: string) => DBOS.runStep(async () => 1, { name }),
    response: () => DBOS.recv(undefined, WAIT_SECONDS),
  }
  const workflow = DBOS.registerWorkflow((place: number) => body(tools, place), { name: PROCESS })
  const handles = new Map<string, { getResult(): Promise<unknown> }>()
  return {
    // It cannot be connected without also beginning to work.
    run: () => DBOS.launch(),
    async start(place) {
      const handle = await DBOS.startWorkflow(workflow)(place)
      handles.set(handle.workflowID, handle)
      return handle.workflowID
    },
    // Its handle knows the promise of the workflow that runs in this process: no poll.
    async ended(id) {
      await handles.get(id)?.getResult()
      handles.delete(id)
    },
    async respondAll(places) {
      await Promise.all(places.map((place) => DBOS.send(idOf(place), 'answer')))
    },
    close: () => DBOS.shutdown(),
  }
}

const idOf = (place: number) => `process-${place}`
