import { waitFor } from '@holdfast/testing/internal'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { moveClock } from '../kernel/clock/clock.js'
import { openLimits, overBound, slotTimes } from './limits.fixture.js'

const { pool, worker, newLimit } = await openLimits()

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

test('R-01 slots whose time passes while a statement waits for the bucket are not granted', async () => {
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

test('R-01 a clock that is set back by an hour counts as standing still, and closes no key', async () => {
  const { db, limiter } = await worker()
  // One ticket in 100 s: the time that the test takes makes none.
  const key = await newLimit(0.01, 2)
  expect((await limiter.reserveMany(key, 4, 600_000)).granted).toBe(4)
  await moveClock(db, -3_600_000)
  const next = await limiter.reserve(key, 600_000)
  expect(next).toMatchObject({ granted: true })
  // Two slots lie ahead of it, of 100 s each.
  expect(next.granted && next.waitMs).toBeGreaterThan(0)
  expect(next.granted && next.waitMs).toBeLessThanOrEqual(300_000)
  await moveClock(db, 10_000_000)
  expect((await limiter.reserveMany(key, 100)).granted).toBe(2)
})

test('R-01 a clock that was set back is noticed by refused requests, too', async () => {
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
  const key = await newLimit(0.01, 3)
  await limiter.reserveMany(key, 9, 6_000_000)
  await moveClock(db, 86_400_000)
  expect((await limiter.reserveMany(key, 100)).granted).toBe(3)
  await moveClock(db, -86_400_000)
  const { granted, retryAfterMs } = await limiter.reserveMany(key, 100)
  expect(granted).toBe(0)
  expect(retryAfterMs).toBeLessThanOrEqual(100_000)
  await moveClock(db, 1_000_000)
  expect((await limiter.reserveMany(key, 100)).granted).toBe(3)
})
