import { expect, test } from 'vitest'
import { moveClock } from '../kernel/clock/clock.js'
import { openLimits, overBound, slotTimes } from './limits.fixture.js'

const { pool, worker, newLimit } = await openLimits()

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
  'R-03 when a limit is %s, what is reserved stays reserved, and the new rate begins after it',
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

test('R-03 a limit that was removed by plain SQL is unknown, and continues from its last state when it is set again', async () => {
  const { limiter } = await worker()
  const key = await newLimit(0.001, 3)
  await limiter.reserveMany(key, 3)
  await pool.query('delete from holdfast.rate_limit where resource_key = $1', [key])
  await expect(limiter.reserve(key, 0)).rejects.toMatchObject({ code: 'HF_UNKNOWN_RATE_LIMIT' })
  await pool.query('insert into holdfast.rate_limit values ($1, 0.001, 3)', [key])
  expect(await limiter.reserve(key, 0)).toMatchObject({ granted: false })
})
