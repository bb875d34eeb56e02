import { setTimeout as sleep } from 'node:timers/promises'
import { holdfast } from 'holdfast'
import pg from 'pg'
import type { Run, System, Task } from '../../harness/workload.js'
import { version } from '../../libraries/holdfast.js'
import { mostInASecond, mostOverBound, percentUsed } from '../limiter/bound.js'
import { scheduleAll, settlementOf } from './items.js'

const KEY = 'bank'
const RATE = 1_000
const BURST = 100
const past = new Date('2020-01-01T00:00:00Z')
const by = { actor: 'bench', reason: 'to be measured' }
const CONFIG = { batchSize: 2_000, dispatchInterval: '1s', maxBatchesAhead: null, enabled: false } as const

/** More is due than the limit lets through; value: how much of it is used, by the moments reserved for the starts. */
export const rated: System = {
  name: 'holdfast',
  version,
  role: 'holdfast',
  config: { rate: RATE, burst: BURST },
  anythingLeft: 'select exists (select from holdfast.dispatch_item where due_at is not null)',
  async prepare({ connectionString, items }) {
    const hf = await holdfast({ connectionString })
    await hf.limits.set(KEY, { ticketsPerSecond: RATE, burst: BURST }, by)
    await scheduleAll(hf, settlementOf({ ...CONFIG, rateLimitKey: KEY }), items, past)
    await hf.close()
  },
  open,
}

async function open({ connectionString, items }: Task): Promise<Run> {
  const hf = await holdfast({ connectionString, migrate: false })
  const client = new pg.Client(connectionString)
  await client.connect()
  const Settlement = settlementOf({ ...CONFIG, rateLimitKey: KEY })
  hf.register(Settlement)
  let starts: readonly number[] = []
  return {
    async work() {
      const worker = await hf.run({ poll: '20ms' })
      await hf.dispatch.resume(Settlement, by)
      while (starts.length < items) {
        await sleep(200)
        starts = await startsSoFar(client)
      }
      await worker.stop()
    },
    figures: () => ({
      value: percentUsed(starts, RATE, BURST),
      details: { 'over the bound': mostOverBound(starts, RATE, BURST), 'most in 1 s': mostInASecond(starts) },
    }),
    async close() {
      await client.end()
      await hf.close()
    },
  }
}

async function startsSoFar(client: pg.Client): Promise<readonly number[]> {
  const { rows } = await client.query<{ at: number }>(
    'select extract(epoch from start_at)::float8 * 1000 as at from holdfast.process_detail where dispatch_item is not null',
  )
  return rows.map(({ at }) => at)
}
