import { countStatements, type Faults, startFaultProxy, testDatabase, waitFor } from '@holdfast/testing/internal'
import fc from 'fast-check'
import pg from 'pg'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { moveClock } from '../kernel/clock/clock.js'
import { openDatabase } from '../kernel/database/open.js'
import { limiterChores } from './chores.js'
import { createLimiter } from './limiter.js'

const { connectionString } = await testDatabase()
const pool = new pg.Pool({ connectionString, max: 4 })
afterAll(() => pool.end())

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

let keys = 0
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

/** The first span in which there are more slots than burst + rate × t, if there is one. */
function overBound(slots: readonly number[], rate: number, burst: number): string | undefined {
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

const slotTimes = (answers: readonly { readonly granted: boolean; readonly atMs?: number }[]) =>
  answers.flatMap(({ atMs }) => (atMs === undefined ? [] : [atMs]))

test('R-01 after the burst there is one slot each 1 / rate', async () => {
  const key = await newLimit(5, 3)
  const { limiter } = await worker()
  const waits = (await limiter.reserveMany(key, 6, 10_000)).waitsMs
  expect(waits.slice(0, 3)).toEqual([0, 0, 0])
  const [first = 0, second = 0, third = 0] = waits.slice(3)
  expect(first).toBeCloseTo(200, 2)
  expect(second).toBeCloseTo(400, 2)
  expect(third).toBeCloseTo(600, 2)
})

test.each([
  ['rates below one', 0.5, 2],
  ['a burst of one', 200, 1],
  ['a rate that does not divide', 333.3, 7],
  ['a large rate', 1e6, 50],
])('R-01 eight workers on one key, %s: no span has more than burst + rate × t', async (_, rate, burst) => {
  const key = await newLimit(rate, burst)
  const workers = await Promise.all(Array.from({ length: 8 }, () => worker()))
  const answers = await Promise.all(
    workers.map(async ({ limiter }) => {
      const rounds = []
      for (let round = 0; round < 6; round += 1) {
        rounds.push(...(await Promise.all([0, 40, 3_600_000].map((maxWait) => limiter.reserve(key, maxWait)))))
      }
      return rounds
    }),
  )
  const slots = slotTimes(answers.flat())
  expect(slots.length).toBeGreaterThanOrEqual(8 * 6)
  expect(overBound(slots, rate, burst)).toBeUndefined()
})

test('R-01 generated rates, bursts, demands and pauses: within the bound, from a full burst on', async () => {
  const { db, limiter } = await worker()
  const step = fc.record({
    count: fc.integer({ min: 1, max: 20 }),
    maxWaitMs: fc.constantFrom(0, 30, 500, 20_000),
    thenMs: fc.constantFrom(0, 0, 7, 100, 5_000),
  })
  const scenario = fc.record({
    rate: fc.constantFrom(0.7, 3, 10, 333.3, 20_000),
    burst: fc.integer({ min: 1, max: 12 }),
    steps: fc.array(step, { minLength: 2, maxLength: 12 }),
  })
  await fc.assert(
    fc.asyncProperty(scenario, async ({ rate, burst, steps }) => {
      const key = await newLimit(rate, burst)
      const slots: number[] = []
      for (const { count, maxWaitMs, thenMs } of steps) {
        const before = slots.length
        const asked = Array.from({ length: count }, () => limiter.reserve(key, maxWaitMs))
        const answers = await Promise.all(asked)
        slots.push(...slotTimes(answers))
        for (const answer of answers) {
          if (answer.granted) expect(answer.waitMs).toBeLessThanOrEqual(maxWaitMs + 0.001)
          else expect(answer.retryAfterMs).toBeGreaterThan(0)
        }
        if (before === 0) expect(slots.length).toBeGreaterThanOrEqual(Math.min(count, burst))
        await moveClock(db, thenMs)
      }
      expect(overBound(slots, rate, burst)).toBeUndefined()
    }),
    { numRuns: 100 },
  )
})

test('R-01 refilling is greedy: what was not used comes back at the rate, up to the burst', async () => {
  const key = await newLimit(10, 5)
  const { db, limiter } = await worker()
  const take = async () => (await limiter.reserveMany(key, 100)).granted
  expect(await take()).toBe(5)
  await moveClock(db, 250)
  expect(await take()).toBeGreaterThanOrEqual(2)
  await moveClock(db, 3_600_000)
  expect(await take()).toBe(5)
})

test('R-02 a slot beyond the maximal wait is not taken, and does not stop those behind who want less', async () => {
  const key = await newLimit(0.01, 1)
  const { limiter } = await worker()
  const [first, tooSoon, patient, again, another] = await Promise.all([
    limiter.reserve(key, 0),
    limiter.reserve(key, 50_000),
    limiter.reserve(key, 150_000),
    limiter.reserve(key, 150_000),
    limiter.reserve(key, 250_000),
  ])
  expect(first).toMatchObject({ granted: true, waitMs: 0 })
  expect(tooSoon).toEqual({ granted: false, retryAfterMs: 50_000 })
  expect(patient).toMatchObject({ granted: true })
  expect(again).toMatchObject({ granted: false })
  expect(another).toMatchObject({ granted: true })
  const { rows } = await pool.query(
    `select round(extract(epoch from full_at - written_at)) as taken from holdfast.rate_limit_bucket where resource_key = $1`,
    [key],
  )
  expect(rows).toEqual([{ taken: '300' }])
})

test('R-02 who is refused writes nothing', async () => {
  const key = await newLimit(0.001, 1)
  const { limiter } = await worker()
  await limiter.reserve(key, 0)
  const version = async () => {
    const { rows } = await pool.query('select xmin from holdfast.rate_limit_bucket where resource_key = $1', [key])
    return rows
  }
  const before = await version()
  expect(await limiter.reserve(key, 10)).toMatchObject({ granted: false })
  expect(await version()).toEqual(before)
})

test('K-05 R-02 a thousand waiters of ten keys are reserved by a statement or two', async () => {
  const { faults, counts } = countStatements()
  const { limiter } = await worker({ faults })
  const ten = await Promise.all(Array.from({ length: 10 }, () => newLimit(1_000, 10)))
  const answers = await Promise.all(
    Array.from({ length: 1_000 }, (_, nth) => limiter.reserve(ten[nth % 10] ?? '', 60_000)),
  )
  expect(answers.every(({ granted }) => granted)).toBe(true)
  expect(counts.get('limits.reserve')).toBeLessThanOrEqual(2)
})

test('K-05 R-02 each waiter has its own answer: of unknown keys the error, of the others their slots', async () => {
  const { limiter } = await worker()
  const key = await newLimit(10, 1)
  const answers = await Promise.allSettled([
    limiter.reserve(key, 0),
    limiter.reserve('nobody', 0),
    limiter.reserve(key, 0),
    limiter.reserveMany('nobody', 5),
  ])
  expect(answers).toMatchObject([
    { value: { granted: true } },
    { reason: { code: 'HF_UNKNOWN_RATE_LIMIT', details: { key: 'nobody' } } },
    { value: { granted: false } },
    { reason: { code: 'HF_UNKNOWN_RATE_LIMIT' } },
  ])
})

test('K-05 R-02 a bucket that somebody holds stops nobody else, and is reserved when it is free', async () => {
  const { limiter } = await worker()
  const [free, held, other] = await Promise.all([newLimit(100, 9), newLimit(100, 9), newLimit(100, 9)])
  await Promise.all([free, held, other].map((key) => limiter.reserve(key, 0)))
  const client = await pool.connect()
  await client.query('begin')
  await client.query('select from holdfast.rate_limit_bucket where resource_key = $1 for update', [held])
  let isAnswered = false
  const waiting = [limiter.reserve(held, 60_000), limiter.reserve(held, 60_000)]
  void Promise.all(waiting).then(() => {
    isAnswered = true
  })
  for (let round = 0; round < 20; round += 1) {
    waiting.push(limiter.reserve(held, 60_000))
    expect(await Promise.all([limiter.reserve(free, 60_000), limiter.reserve(other, 60_000)])).toMatchObject([
      { granted: true },
      { granted: true },
    ])
  }
  expect(isAnswered).toBe(false)
  // One statement with both says which it is, and waits for neither.
  const { rows } = await pool.query(
    'select outcome from holdfast.reserve_slots($1, array[1, 1], array[0, 0]::float8[], false) order by run',
    [[held, free]],
  )
  expect(rows).toEqual([{ outcome: 'held' }, { outcome: 'reserved' }])
  await client.query('commit')
  client.release()
  expect((await Promise.all(waiting)).every(({ granted }) => granted)).toBe(true)
})

test('R-01 slots that pass while a statement waits for the bucket are nobody’s', async () => {
  const { limiter } = await worker()
  const key = await newLimit(1e6, 1)
  await limiter.reserve(key, 0)
  const client = await pool.connect()
  await client.query('begin')
  await client.query('select from holdfast.rate_limit_bucket where resource_key = $1 for update', [key])
  const waiting = limiter.reserve(key, 60_000)
  await waitFor('it waits for the lock', async () => {
    const text = `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%reserve_slots%'
      and datname = current_database()`
    return (await pool.query(text)).rows.length > 0
  })
  const { rows } = await client.query<{ released: string }>(
    'select extract(epoch from holdfast.now()) * 1000 as released',
  )
  await client.query('commit')
  client.release()
  const slot = await waiting
  expect(slot.granted && slot.atMs).toBeGreaterThanOrEqual(Number(rows[0]?.released))
})

test('R-02 several workers with the same new keys, in any order: no deadlock, one bucket each', async () => {
  const workers = await Promise.all(Array.from({ length: 4 }, () => worker()))
  const fresh = await Promise.all(Array.from({ length: 12 }, () => newLimit(1, 100)))
  const answers = await Promise.all(
    workers.map(({ limiter }, nth) => {
      const own = nth % 2 === 0 ? fresh : fresh.toReversed()
      return Promise.all(own.map((key) => limiter.reserve(key, 0)))
    }),
  )
  expect(answers.flat().every(({ granted }) => granted)).toBe(true)
  const { rows } = await pool.query(
    `select round(extract(epoch from full_at - written_at)) as taken from holdfast.rate_limit_bucket where resource_key = any ($1)`,
    [fresh],
  )
  expect(rows.length).toBe(12)
})

test('R-02 a reservation whose answer was lost is made again: its first slot is wasted and nothing else', async () => {
  const proxy = await startFaultProxy(connectionString)
  onTestFinished(() => proxy.close())
  const { limiter } = await worker({ at: proxy.connectionString, poolSize: 1 })
  const key = await newLimit(0.001, 10)
  await limiter.reserve(key, 0)
  const swallowed = proxy.swallowAnswerTo(key)
  expect(await limiter.reserve(key, 0)).toMatchObject({ granted: true })
  await swallowed
  expect((await limiter.reserveMany(key, 100)).granted).toBe(7)
})

test('R-02 who has left before the statement goes out takes no slot', async () => {
  const { limiter } = await worker()
  const key = await newLimit(0.001, 2)
  const controller = new AbortController()
  const gone = limiter.reserve(key, 0, controller.signal)
  controller.abort(new Error('changed my mind'))
  await expect(gone).rejects.toThrow('changed my mind')
  expect((await limiter.reserveMany(key, 10)).granted).toBe(2)
})

test('R-03 a change by plain SQL holds for the next reservation', async () => {
  const { db, limiter } = await worker()
  const key = await newLimit(0.001, 1)
  await limiter.reserve(key, 0)
  await pool.query('update holdfast.rate_limit set tickets_per_second = 100, burst = 50 where resource_key = $1', [key])
  // The bucket keeps what was in it, which was nothing, and fills at the new rate.
  expect(await limiter.reserve(key, 0)).toMatchObject({ granted: false })
  await moveClock(db, 3_600_000)
  expect((await limiter.reserveMany(key, 100)).granted).toBe(50)
})

test('R-03 an empty bucket of a slow limit opens when the limit is raised, though all were refused until then', async () => {
  const { db, limiter } = await worker()
  const key = await newLimit(0.0001, 1)
  await limiter.reserve(key, 0)
  await pool.query('update holdfast.rate_limit set tickets_per_second = 10 where resource_key = $1', [key])
  expect(await limiter.reserve(key, 0)).toMatchObject({ granted: false })
  await moveClock(db, 100)
  expect(await limiter.reserve(key, 0)).toMatchObject({ granted: true })
})

test.each([
  ['raised', 10, 5, 100, 20],
  ['lowered', 100, 20, 5, 2],
])(
  'R-03 when a limit is %s, what is reserved stays and the new rate begins after it',
  async (_, rate, burst, newRate, newBurst) => {
    const { limiter } = await worker()
    const key = await newLimit(rate, burst)
    const before = slotTimes(await Promise.all(Array.from({ length: 30 }, () => limiter.reserve(key, 60_000))))
    await pool.query('update holdfast.rate_limit set tickets_per_second = $2, burst = $3 where resource_key = $1', [
      key,
      newRate,
      newBurst,
    ])
    const after = slotTimes(await Promise.all(Array.from({ length: 30 }, () => limiter.reserve(key, 60_000))))
    const last = Math.max(...before)
    expect(after[0]).toBeCloseTo(last + 1000 / newRate, 1)
    expect(overBound(before, rate, burst)).toBeUndefined()
    // It begins empty: no burst on top of what was reserved.
    expect(overBound([last, ...after], newRate, 1)).toBeUndefined()
  },
)

test('R-03 a limit that was removed by plain SQL is unknown, and goes on where it was when it is set again', async () => {
  const { limiter } = await worker()
  const key = await newLimit(0.001, 3)
  await limiter.reserveMany(key, 3)
  await pool.query('delete from holdfast.rate_limit where resource_key = $1', [key])
  await expect(limiter.reserve(key, 0)).rejects.toMatchObject({ code: 'HF_UNKNOWN_RATE_LIMIT' })
  await pool.query('insert into holdfast.rate_limit values ($1, 0.001, 3)', [key])
  expect(await limiter.reserve(key, 0)).toMatchObject({ granted: false })
})

test('R-01 a clock that is set back by an hour counts as standing still, and closes no key', async () => {
  const { db, limiter } = await worker()
  const key = await newLimit(10, 2)
  expect((await limiter.reserveMany(key, 4, 60_000)).granted).toBe(4)
  await moveClock(db, -3_600_000)
  const next = await limiter.reserve(key, 60_000)
  expect(next).toMatchObject({ granted: true })
  // Two slots lie ahead of it, of 100 ms each.
  expect(next.granted && next.waitMs).toBeGreaterThan(0)
  expect(next.granted && next.waitMs).toBeLessThanOrEqual(300)
  await moveClock(db, 10_000)
  expect((await limiter.reserveMany(key, 100)).granted).toBe(2)
})

test('R-01 a clock that was set back is noticed by those who are refused, too', async () => {
  const { db, limiter } = await worker()
  const key = await newLimit(10, 1)
  await limiter.reserve(key, 0)
  await moveClock(db, -3_600_000)
  await limiter.reserve(key, 0)
  await moveClock(db, 100)
  expect(await limiter.reserve(key, 0)).toMatchObject({ granted: true })
})

test('R-01 a clock that jumps ahead fills the bucket and no more', async () => {
  const { db, limiter } = await worker()
  const key = await newLimit(10, 3)
  await limiter.reserveMany(key, 9, 60_000)
  await moveClock(db, 86_400_000)
  expect((await limiter.reserveMany(key, 100)).granted).toBe(3)
  await moveClock(db, -86_400_000)
  const { granted, retryAfterMs } = await limiter.reserveMany(key, 100)
  expect(granted).toBe(0)
  expect(retryAfterMs).toBeLessThanOrEqual(100)
  await moveClock(db, 1_000)
  expect((await limiter.reserveMany(key, 100)).granted).toBe(3)
})

test('R-02 a closed limiter takes no more', async () => {
  const { limiter } = await worker()
  await limiter.close()
  await expect(limiter.reserve('any', 0)).rejects.toMatchObject({ code: 'HF_STOPPED' })
})

test('R-03 the hourly chore removes the buckets that are full and unused, and no others', async () => {
  const { db, limiter } = await worker()
  const [idle, empty, recent] = await Promise.all([newLimit(10, 1), newLimit(0.0001, 1), newLimit(10, 1)])
  await Promise.all([idle, empty].map((key) => limiter.reserve(key, 0)))
  await moveClock(db, 3_601_000)
  await limiter.reserve(recent, 0)
  await limiterChores.rate_limit_buckets?.(db)
  const { rows } = await pool.query<{ resource_key: string }>(
    'select resource_key from holdfast.rate_limit_bucket where resource_key = any ($1) order by 1',
    [[idle, empty, recent]],
  )
  expect(rows.map(({ resource_key }) => resource_key)).toEqual([empty, recent])
  expect(await limiter.reserve(idle, 0)).toMatchObject({ granted: true })
})

test('R-03 the chore waits for nobody, and a bucket that goes while somebody waits for it is made again', async () => {
  const { db, limiter } = await worker()
  const key = await newLimit(10, 1)
  await limiter.reserve(key, 0)
  await moveClock(db, 3_601_000)
  const client = await pool.connect()
  await client.query('begin')
  await client.query('select from holdfast.rate_limit_bucket where resource_key = $1 for update', [key])
  await limiterChores.rate_limit_buckets?.(db)
  const waiting = limiter.reserve(key, 0)
  await client.query('delete from holdfast.rate_limit_bucket where resource_key = $1', [key])
  await client.query('commit')
  client.release()
  expect(await waiting).toMatchObject({ granted: true })
})
