import { type Faults, testDatabase } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, onTestFinished } from 'vitest'
import { openDatabase } from '../kernel/database/open.js'
import { createLimiter } from './limiter.js'

/** A database of a test file's own, with limits and workers as its tests need them. */
export async function openLimits() {
  const { connectionString } = await testDatabase()
  const pool = new pg.Pool({ connectionString, max: 4 })
  afterAll(() => pool.end())
  let keys = 0

  /** A worker of its own: its connections, its limiter. */
  async function worker(options: { readonly faults?: Faults; readonly at?: string; readonly poolSize?: number } = {}) {
    const { faults, at = connectionString, poolSize = 3 } = options
    const db = await openDatabase({ connectionString: at, poolSize, ...(faults ? { faults } : {}) })
    const limiter = createLimiter(db)
    onTestFinished(async () => {
      await limiter.close()
      await db.close()
    })
    return { db, limiter }
  }

  /** A limit of a test's own. */
  async function newLimit(ticketsPerSecond: number, burst: number | null = null): Promise<string> {
    keys += 1
    const key = `key-${String(keys).padStart(3, '0')}`
    await pool.query('insert into holdfast.rate_limit (resource_key, tickets_per_second, burst) values ($1, $2, $3)', [
      key,
      ticketsPerSecond,
      burst,
    ])
    return key
  }

  return { connectionString, pool, worker, newLimit }
}

/** The first span in which there are more slots than burst + rate × t, if there is one. */
export function overBound(slots: readonly number[], rate: number, burst: number): string | undefined {
  const sorted = slots.toSorted((a, b) => a - b)
  for (let from = 0; from < sorted.length; from += 1) {
    for (let to = from; to < sorted.length; to += 1) {
      const spanMs = (sorted[to] ?? 0) - (sorted[from] ?? 0)
      const count = to - from + 1
      // A microsecond for the rounding of the database's timestamps.
      if (count > burst + (rate * (spanMs + 0.001)) / 1000) return `${count} slots within ${spanMs} ms`
    }
  }
  return undefined
}

export const slotTimes = (answers: readonly { readonly granted: boolean; readonly atMs?: number }[]) =>
  answers.flatMap(({ atMs }) => (atMs === undefined ? [] : [atMs]))
