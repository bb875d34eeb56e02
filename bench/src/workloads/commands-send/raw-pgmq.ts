import { fillPgmq, QUEUE, sendBatch, version } from '../../libraries/pgmq.js'
import { openPool } from '../../libraries/pool.js'
import type { SendingLibrary } from './sender.js'

const CONNECTIONS = 20

/** One row per message and no NOTIFY at all: its readers poll. */
export const pgmqSend: SendingLibrary = {
  name: 'PGMQ send',
  version,
  role: 'ceiling',
  config: {},
  install: (connectionString) => fillPgmq(connectionString, 0),
  async open(connectionString) {
    const pool = await openPool(connectionString, CONNECTIONS)
    const bulk = await pool.connect()
    return {
      one: (payload) =>
        pool.query({
          name: 'send',
          text: `select pgmq.send('${QUEUE}', $1::jsonb)`,
          values: [JSON.stringify(payload)],
        }),
      bulk: (payloads) => sendBatch(bulk, payloads),
      async close() {
        bulk.release()
        await pool.end()
      },
    }
  },
}
