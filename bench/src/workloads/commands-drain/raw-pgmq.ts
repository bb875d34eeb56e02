import pg from 'pg'
import { anythingLeft, fillPgmq, QUEUE, version } from '../../libraries/pgmq.js'
import type { DrainingLibrary } from './drainer.js'

interface Config {
  readonly batch: number
  readonly loops: number
}

/** A hand-written loop over pgmq.read and pgmq.delete: no handler, no retry, no status, no history. */
export function rawPgmq(config: Config): DrainingLibrary {
  return {
    name: 'PGMQ read/delete',
    version,
    role: 'ceiling',
    config: { ...config },
    anythingLeft,
    prepare: ({ connectionString, items }) => fillPgmq(connectionString, items),
    async open({ connectionString }, handled) {
      const clients = Array.from({ length: config.loops }, () => new pg.Client(connectionString))
      await Promise.all(clients.map((client) => client.connect()))
      return {
        async start() {
          await Promise.all(clients.map((client) => drain(client, config.batch, handled)))
        },
        async close() {
          await Promise.all(clients.map((client) => client.end()))
        },
      }
    },
  }
}

async function drain(client: pg.Client, batch: number, handled: (jobs: number) => void): Promise<void> {
  for (;;) {
    const { rows } = await client.query<{ msg_id: string }>({
      name: 'read',
      text: `select msg_id, message from pgmq.read('${QUEUE}', 30, $1)`,
      values: [batch],
    })
    if (rows.length === 0) return
    await client.query({
      name: 'delete',
      text: `select pgmq.delete('${QUEUE}', $1::bigint[])`,
      values: [rows.map(({ msg_id }) => msg_id)],
    })
    handled(rows.length)
  }
}
