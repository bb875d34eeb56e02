import { EventEmitter } from 'node:events'
import type { WorkerEvents } from 'graphile-worker'
import { fillGraphile, startRunner, TASK, version } from '../../libraries/graphile-worker.js'
import { openPool } from '../../libraries/pool.js'
import type { ClaimingLibrary } from './backlog-system.js'
import { CLAIM_SIZE, CLAIMS, WARM_UP } from './claims.js'

const DAY_MS = 86_400_000
const config = { jobs: 24, localQueue: CLAIM_SIZE }

/** Its claims cannot be called from outside, so its worker runs and its events tell when it fetches. */
export const graphileClaim: ClaimingLibrary = {
  name: 'graphile-worker batched',
  version,
  role: 'peer',
  config,
  async fill(connectionString, { waiting, delayed }) {
    await fillGraphile(connectionString, delayed, new Date(Date.now() + DAY_MS))
    await fillGraphile(connectionString, waiting)
  },
  async open(connectionString) {
    const pool = await openPool(connectionString, config.jobs + 2)
    const events: WorkerEvents = new EventEmitter()
    const durations = listen(events)
    return {
      async claims() {
        const runner = await startRunner(pool, config, { [TASK]: async () => undefined }, events)
        try {
          return (await durations).slice(WARM_UP)
        } finally {
          await runner.stop()
        }
      },
      close: () => pool.end(),
    }
  },
}

/** Resolves with the durations of all claims that were full. */
function listen(events: WorkerEvents): Promise<number[]> {
  const durations: number[] = []
  let began = 0
  return new Promise((resolve) => {
    events.on('localQueue:setMode', ({ newMode }) => {
      if (newMode === 'POLLING') began = performance.now()
    })
    events.on('localQueue:getJobs:complete', ({ jobs }) => {
      const isFull = jobs.length === CLAIM_SIZE
      if (isFull) durations.push(performance.now() - began)
      if (!isFull || durations.length === WARM_UP + CLAIMS) resolve(durations)
    })
  })
}
