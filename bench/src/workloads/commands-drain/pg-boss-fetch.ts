import { anythingLeft, closeBoss, fillBoss, openBoss, QUEUE, version } from '../../libraries/pg-boss.js'
import type { DrainingLibrary } from './drainer.js'

interface Config {
  readonly batch: number
  readonly loops: number
}

/** A hand-written loop over its fetch and complete: no handler, no retry, nothing that takes care of a lost batch. */
export function pgBossFetch(config: Config): DrainingLibrary {
  return {
    name: 'pg-boss fetch/complete',
    version,
    role: 'ceiling',
    config: { ...config },
    anythingLeft,
    prepare: ({ connectionString, items }) => fillBoss(connectionString, items),
    async open({ connectionString }, handled) {
      const boss = await openBoss(connectionString)
      async function drain(): Promise<void> {
        for (;;) {
          const jobs = await boss.fetch(QUEUE, { batchSize: config.batch })
          if (jobs.length === 0) return
          await boss.complete(
            QUEUE,
            jobs.map(({ id }) => id),
          )
          handled(jobs.length)
        }
      }
      return {
        async start() {
          await Promise.all(Array.from({ length: config.loops }, drain))
        },
        close: () => closeBoss(boss),
      }
    },
  }
}
