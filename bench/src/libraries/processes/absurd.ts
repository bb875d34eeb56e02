import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { Absurd } from 'absurd-sdk'
import { versionOf } from '../../harness/version.js'
import { withClient } from '../../harness/with-client.js'
import { openPool } from '../pool.js'
import { atOnce } from './at-once.js'
import { type Body, PROCESS, type ProcessHost, type ProcessLibrary } from './process-library.js'

const ASK_EVERY_MS = 1
const FILLERS = 20
const WAIT_SECONDS = 3600

/** Its npm package comes without its tables: this names a file with them. docs/operations/benchmarks.md says how to get it. */
const schemaFile = process.env.ABSURD_SQL

export interface AbsurdConfig {
  readonly concurrency: number
  readonly connections: number
  /** How often an idle worker asks; 250 by default. */
  readonly pollMs: number
}

/** None without its schema. */
export function absurd(config: AbsurdConfig): readonly ProcessLibrary[] {
  if (schemaFile === undefined || schemaFile === '') return []
  return [
    {
      name: 'absurd',
      version: versionOf('absurd-sdk'),
      role: 'peer',
      config: { ...config },
      anythingLeft: `select exists (select from absurd.t_${PROCESS} where state <> 'completed')`,
      waiting: `select count(*)::int from absurd.t_${PROCESS} where state = 'sleeping'`,
      install: (connectionString) => install(connectionString, schemaFile),
      fill,
      open: (connectionString, body) => open(connectionString, body, config),
    },
  ]
}

async function install(connectionString: string, schema: string): Promise<void> {
  const tables = await readFile(schema, 'utf8')
  await withClient(connectionString, async (client) => {
    await client.query(tables)
    await client.query('select absurd.create_queue($1)', [PROCESS])
  })
}

async function fill(connectionString: string, processes: number, from: number): Promise<void> {
  const pool = await openPool(connectionString, FILLERS)
  try {
    const client = new Absurd({ db: pool, queueName: PROCESS })
    await atOnce(FILLERS, processes, (offset) => client.spawn(PROCESS, { place: from + offset }, { queue: PROCESS }))
  } finally {
    await pool.end()
  }
}

async function open(connectionString: string, body: Body, config: AbsurdConfig): Promise<ProcessHost> {
  const pool = await openPool(connectionString, config.connections)
  const client = new Absurd({ db: pool, queueName: PROCESS })
  client.registerTask<{ place: number }, void>({ name: PROCESS }, ({ place }, task) =>
    body(
      {
        step: (name) => task.step(name, async () => 1),
        response: () => task.awaitEvent(eventOf(place), { timeout: WAIT_SECONDS }),
      },
      place,
    ),
  )
  return {
    async run() {
      await client.startWorker({ concurrency: config.concurrency, pollInterval: config.pollMs / 1000 })
    },
    start: async (place) => (await client.spawn(PROCESS, { place })).taskID,
    // Its own wait for a result asks every 50 ms and less and less often.
    async ended(id) {
      while ((await client.fetchTaskResult(id))?.state !== 'completed') await sleep(ASK_EVERY_MS)
    },
    async respondAll(places) {
      await Promise.all(places.map((place) => client.emitEvent(eventOf(place), 'answer')))
    },
    async close() {
      await client.close()
      await pool.end()
    },
  }
}

const eventOf = (place: number) => `answer:${place}`
