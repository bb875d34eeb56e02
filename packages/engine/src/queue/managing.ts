import type { Database } from '../kernel/database/database.js'
import { callQueue } from './call.js'
import { ensureQueue, forgetQueue, queueExists } from './ensure-queue.js'
import { ownNameOf, queueNameFor } from './names.js'

export interface QueueDescription {
  /** As this installation calls it. */
  readonly name: string
  /** As PGMQ and every foreign client call it. */
  readonly queue: string
  readonly partitioned: boolean
  readonly unlogged: boolean
  readonly createdAt: Date
}

export interface QueueMetrics {
  readonly length: number
  readonly visible: number
  /** All that were ever sent. */
  readonly total: number
  readonly newestAgeSeconds: number | null
  readonly oldestAgeSeconds: number | null
  readonly measuredAt: Date
}

const dropStatement = { name: 'queue.drop', text: 'select pgmq.drop_queue($1::text) as dropped' }

const purgeStatement = { name: 'queue.purge', text: 'select pgmq.purge_queue($1::text)::float8 as purged' }

const listStatement = {
  name: 'queue.list',
  text: `
    select
      queue_name::text as queue,
      is_partitioned as partitioned,
      is_unlogged as unlogged,
      created_at as "createdAt"
    from pgmq.list_queues()
    order by queue_name`,
}

// Counts as float8, which `pg` returns as numbers: exact up to 2^53.
const metricsStatement = {
  name: 'queue.metrics',
  text: `
    select
      queue_length::float8 as length,
      queue_visible_length::float8 as visible,
      total_messages::float8 as total,
      newest_msg_age_sec as "newestAgeSeconds",
      oldest_msg_age_sec as "oldestAgeSeconds",
      scrape_time as "measuredAt"
    from pgmq.metrics($1::text)`,
}

/** The part of the client that is about queues as a whole. */
export function createManaging(db: Database) {
  const queueName = (name: string) => queueNameFor(db.schema, name)
  return {
    queueName,

    async create(name: string): Promise<void> {
      forgetQueue(db, queueName(name))
      await ensureQueue(db, queueName(name))
    },

    async drop(name: string): Promise<boolean> {
      const [row] = await callQueue<{ dropped: boolean }>(db, name, dropStatement)
      forgetQueue(db, queueName(name))
      return row?.dropped === true
    },

    async exists(name: string): Promise<boolean> {
      return queueExists(db, queueName(name))
    },

    async list(): Promise<QueueDescription[]> {
      const rows = await db.run<Omit<QueueDescription, 'name'>>(listStatement)
      return rows.flatMap((row) => {
        const name = ownNameOf(db.schema, row.queue)
        return name === undefined ? [] : [{ name, ...row }]
      })
    },

    async purge(name: string): Promise<number> {
      const [row] = await callQueue<{ purged: number }>(db, name, purgeStatement)
      return row?.purged ?? 0
    },

    async metrics(name: string): Promise<QueueMetrics> {
      const [row] = await callQueue<QueueMetrics>(db, name, metricsStatement)
      if (!row) throw new Error(`PGMQ said nothing about the queue ${name}`)
      return row
    },
  }
}
