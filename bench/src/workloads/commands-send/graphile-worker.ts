import { fillGraphile, openUtils, TASK, version } from '../../libraries/graphile-worker.js'
import { openPool } from '../../libraries/pool.js'
import type { SendingLibrary } from './sender.js'

const CONNECTIONS = 20

/** One row and one NOTIFY per job; in bulk one NOTIFY per statement. */
export const graphileSend: SendingLibrary = {
  name: 'graphile-worker',
  version,
  role: 'peer',
  config: {},
  install: (connectionString) => fillGraphile(connectionString, 0),
  async open(connectionString) {
    const pool = await openPool(connectionString, CONNECTIONS)
    const utils = await openUtils(pool)
    return {
      one: (payload) => utils.addJob(TASK, payload),
      bulk: (payloads) => utils.addJobs(payloads.map((payload) => ({ identifier: TASK, payload }))),
      async close() {
        await utils.release()
        await pool.end()
      },
    }
  },
}
