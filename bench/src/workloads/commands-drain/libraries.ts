import type { SystemOptions } from '../../harness/workload.js'
import type { DrainingLibrary } from './drainer.js'
import { graphileWorker } from './graphile-worker.js'
import { holdfastCommands } from './holdfast.js'
import { pgBossWork } from './pg-boss.js'
import { pgBossFetch } from './pg-boss-fetch.js'
import { rawPgmq } from './raw-pgmq.js'

/** Every library with the settings that were found to be best for it. */
export function drainingLibraries({ concurrency }: SystemOptions): readonly DrainingLibrary[] {
  return [
    ...(concurrency === undefined ? [500, 50] : [concurrency]).map((slots) => holdfastCommands({ concurrency: slots })),
    graphileWorker({ jobs: 24, localQueue: 500 }),
    graphileWorker({ jobs: 24 }),
    pgBossWork({ batch: 1000, workers: 4 }),
    pgBossFetch({ batch: 500, loops: 2 }),
    rawPgmq({ batch: 500, loops: 2 }),
  ]
}
