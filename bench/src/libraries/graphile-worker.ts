import { Logger, makeWorkerUtils, type Runner, run, type TaskList, type WorkerEvents } from 'graphile-worker'
import type pg from 'pg'
import { versionOf } from '../harness/version.js'
import { chunksOf } from './payload.js'
import { openPool } from './pool.js'

export const version = versionOf('graphile-worker')
export const TASK = 'noop'
export const anythingLeft = 'select exists (select from graphile_worker._private_jobs)'

const logger = new Logger(() => () => undefined)

/** Its settings as far as we vary them. `jobs` run at once. */
export interface GraphileConfig {
  readonly jobs: number
  /** How many jobs it claims ahead in one statement; it also completes in batches then. One by one without it. */
  readonly localQueue?: number
}

export function startRunner(
  pool: pg.Pool,
  { jobs, localQueue }: GraphileConfig,
  taskList: TaskList,
  events?: WorkerEvents,
): Promise<Runner> {
  const batching = localQueue === undefined ? {} : { localQueue: { size: localQueue }, completeJobBatchDelay: 0 }
  return run({
    pgPool: pool,
    taskList,
    parsedCronItems: [],
    noHandleSignals: true,
    logger,
    ...(events ? { events } : {}),
    preset: { worker: { concurrentJobs: jobs, ...batching } },
  })
}

export function openUtils(pool: pg.Pool) {
  return makeWorkerUtils({ pgPool: pool, logger })
}

/** The installation and its waiting jobs. */
export async function fillGraphile(connectionString: string, items: number, runAt?: Date): Promise<void> {
  const pool = await openPool(connectionString, 2)
  try {
    const utils = await openUtils(pool)
    await utils.migrate()
    for (const chunk of chunksOf(items)) {
      await utils.addJobs(chunk.map((payload) => ({ identifier: TASK, payload, ...(runAt ? { runAt } : {}) })))
    }
    await utils.release()
  } finally {
    await pool.end()
  }
}
