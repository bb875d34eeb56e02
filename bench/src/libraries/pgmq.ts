import { installQueue, openDatabase } from 'holdfast/internal'
import type pg from 'pg'
import { versionOf } from '../harness/version.js'
import { withClient } from '../harness/with-client.js'
import { chunksOf, type Payload } from './payload.js'

export const version = `pg ${versionOf('pg')}`
export const QUEUE = 'bench'
export const anythingLeft = `select exists (select from pgmq.q_${QUEUE})`

export async function sendBatch(client: pg.ClientBase, payloads: readonly Payload[], delaySeconds = 0): Promise<void> {
  await client.query({
    name: 'send batch',
    text: `select pgmq.send_batch('${QUEUE}', $1::jsonb[], $2::int)`,
    values: [payloads.map((payload) => JSON.stringify(payload)), delaySeconds],
  })
}

/** PGMQ alone, without Holdfast's tables, and its waiting messages. */
export async function fillPgmq(connectionString: string, items: number, delaySeconds = 0): Promise<void> {
  const db = await openDatabase({ connectionString, poolSize: 2 })
  try {
    await installQueue(db)
  } finally {
    await db.close()
  }
  await withClient(connectionString, async (client) => {
    await client.query(`select pgmq.create('${QUEUE}')`)
    for (const chunk of chunksOf(items)) await sendBatch(client, chunk, delaySeconds)
  })
}
