import {
  anythingLeft,
  fillGraphile,
  type GraphileConfig,
  startRunner,
  TASK,
  version,
} from '../../libraries/graphile-worker.js'
import { openPool } from '../../libraries/pool.js'
import type { DrainingLibrary } from './drainer.js'

/** A job that is done is deleted: no status, no result, no history. */
export function graphileWorker(config: GraphileConfig): DrainingLibrary {
  return {
    name: config.localQueue === undefined ? 'graphile-worker plain' : 'graphile-worker batched',
    version,
    role: 'peer',
    config: { ...config },
    anythingLeft,
    prepare: ({ connectionString, items }) => fillGraphile(connectionString, items),
    async open({ connectionString }, handled) {
      const pool = await openPool(connectionString, config.jobs + 2)
      let stop: () => Promise<void> = async () => undefined
      return {
        async start() {
          const runner = await startRunner(pool, config, { [TASK]: async () => handled(1) })
          stop = () => runner.stop()
        },
        async close() {
          await stop()
          await pool.end()
        },
      }
    },
  }
}
