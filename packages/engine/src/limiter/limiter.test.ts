import { countStatements, startFaultProxy } from '@holdfast/testing/internal'
import { expect, onTestFinished, test } from 'vitest'
import { openLimits } from './limits.fixture.js'

const { connectionString, pool, worker, newLimit } = await openLimits()

test('R-02 a slot beyond the maximal wait is not taken, and does not block later requests that accept a longer wait', async () => {
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

test('R-02 a refused request writes nothing', async () => {
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

test('K-05 R-02 each waiter has its own result: the error for unknown keys, slots for the others', async () => {
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

test('K-05 R-02 a bucket locked by another transaction delays no other bucket, and is reserved when it is free', async () => {
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

test('R-02 a request that is aborted before the statement goes out takes no slot', async () => {
  const { limiter } = await worker()
  const key = await newLimit(0.001, 2)
  const controller = new AbortController()
  const gone = limiter.reserve(key, 0, controller.signal)
  controller.abort(new Error('changed my mind'))
  await expect(gone).rejects.toThrow('changed my mind')
  expect((await limiter.reserveMany(key, 10)).granted).toBe(2)
})

test('R-02 a closed limiter refuses requests', async () => {
  const { limiter } = await worker()
  await limiter.close()
  await expect(limiter.reserve('any', 0)).rejects.toMatchObject({ code: 'HF_STOPPED' })
})
