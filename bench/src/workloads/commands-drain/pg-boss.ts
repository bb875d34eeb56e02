import { anythingLeft, closeBoss, fillBoss, openBoss, QUEUE, version } from '../../libraries/pg-boss.js'
import type { DrainingLibrary } from './drainer.js'

interface Config {
  readonly batch: number
  readonly workers: number
}

/** Its worker: a handler gets a batch, and the batch succeeds or fails as one. Jobs stay as rows with their last state. */
export function pgBossWork(config: Config): DrainingLibrary {
  return {
    name: 'pg-boss work',
    version,
    role: 'peer',
    config: { ...config },
    anythingLeft,
    prepare: ({ connectionString, items }) => fillBoss(connectionString, items),
    async open({ connectionString }, handled) {
      const boss = await openBoss(connectionString)
      const options = {
        batchSize: config.batch,
        localConcurrency: config.workers,
        pollingIntervalSeconds: 0.5,
        // Otherwise it would wait for the next poll although there is more.
        burstWhenBatchFull: true,
      }
      return {
        async start() {
          await boss.work(QUEUE, options, async (jobs) => handled(jobs.length))
        },
        close: () => closeBoss(boss),
      }
    },
  }
}
