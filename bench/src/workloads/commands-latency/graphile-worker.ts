import {
  fillGraphile,
  type GraphileConfig,
  openUtils,
  startRunner,
  TASK,
  version,
} from '../../libraries/graphile-worker.js'
import { openPool } from '../../libraries/pool.js'
import type { WaitingLibrary } from './latency-system.js'

export function graphileLatency(config: GraphileConfig): WaitingLibrary {
  return {
    name: config.localQueue === undefined ? 'graphile-worker plain' : 'graphile-worker batched',
    version,
    role: 'peer',
    config: { ...config },
    install: (connectionString) => fillGraphile(connectionString, 0),
    async open(connectionString, started) {
      const pool = await openPool(connectionString, config.jobs + 2)
      const utils = await openUtils(pool)
      const runner = await startRunner(pool, config, { [TASK]: async () => started() })
      return {
        send: (payload) => utils.addJob(TASK, payload),
        async close() {
          await runner.stop()
          await utils.release()
          await pool.end()
        },
      }
    },
  }
}
