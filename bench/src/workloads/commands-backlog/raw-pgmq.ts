import pg from 'pg'
import { fillPgmq, QUEUE, version } from '../../libraries/pgmq.js'
import type { ClaimingLibrary } from './backlog-system.js'
import { CLAIM_SIZE, timeClaims } from './claims.js'

const DAY_SECONDS = 86_400

export const pgmqClaim: ClaimingLibrary = {
  name: 'PGMQ read',
  version,
  role: 'ceiling',
  config: {},
  async fill(connectionString, { waiting, delayed }) {
    await fillPgmq(connectionString, delayed, DAY_SECONDS)
    await fillPgmq(connectionString, waiting)
  },
  async open(connectionString) {
    const client = new pg.Client(connectionString)
    await client.connect()
    async function claim(): Promise<number> {
      const text = `select msg_id, message from pgmq.read('${QUEUE}', 30, $1)`
      const { rows } = await client.query({ name: 'read', text, values: [CLAIM_SIZE] })
      return rows.length
    }
    return { claims: () => timeClaims(claim), close: () => client.end() }
  },
}
