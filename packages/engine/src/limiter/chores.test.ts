import { expect, test } from 'vitest'
import { moveClock } from '../kernel/clock/clock.js'
import { limiterChores } from './chores.js'
import { openLimits } from './limits.fixture.js'

const { pool, worker, newLimit } = await openLimits()

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

test('R-03 the chore waits for no lock, and a bucket that is removed while a request waits for it is created again', async () => {
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
