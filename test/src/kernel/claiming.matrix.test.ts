import { longOr, startWorkerProcess, waitFor } from '@holdfast/testing/internal'
import { expect, test } from 'vitest'
import { enqueueTiny, tinyBooks, tinySource, tinyWorker, tinyWorkerScript } from '../tiny-model/index.js'
import { tinyDatabase } from './tiny-database.js'

const ITEMS = longOr(20_000, 2_000)

test(`K-01 ${ITEMS} items are each claimed and run once by 8 concurrent worker processes`, async () => {
  const { db, connectionString } = await tinyDatabase()
  await enqueueTiny(db, 'a', ITEMS)
  const workers = Array.from({ length: 8 }, (_, n) =>
    startWorkerProcess(tinyWorkerScript, { connectionString, worker: `w${n}`, concurrency: 50 }),
  )
  await waitFor('all items are done', async () => (await tinyBooks(db)).done === ITEMS, {
    timeout: 90_000,
    every: 200,
  })
  expect(await tinyBooks(db)).toEqual({ items: ITEMS, done: ITEMS, repeated: 0, effects: ITEMS, audits: ITEMS })
  for (const worker of workers) worker.send({ stop: true })
  const ends = await Promise.all(workers.map((worker) => worker.ended))
  expect(ends).toEqual(Array.from({ length: 8 }, () => ({ code: 0, signal: null })))
}, 120_000)

test('K-01 a claim moves due_at to the end of its lease and records worker and time; finished work has no due_at', async () => {
  const { db } = await tinyDatabase()
  const [id] = await enqueueTiny(db, 'a', 1)
  const source = tinySource(db, ['a'])
  const lanes = [{ type: 'a', from: null }]
  const request = { worker: 'w1', limit: 10, leaseMs: 5_000, lanes, spareLeased: false, ceilingMs: 60_000 }
  const { items } = await source.claim(request)
  expect(items).toEqual([{ id, type: 'a', epoch: 1 }])
  const [row] = await db.run({
    name: 'test.row',
    text: `select leased_by, extract(epoch from due_at - leased_at)::float8 as lease, lease_epoch from holdfast.tiny`,
  })
  expect(row).toEqual({ leased_by: 'w1', lease: 5, lease_epoch: 1 })
  const again = await source.claim(request)
  expect(again.items).toEqual([])
  expect(again.nextDueMs).toBeGreaterThan(0)
  expect(again.nextDueMs).toBeLessThanOrEqual(5_000)
})

test('K-01 an item that is released before it began is due at once and keeps nothing of its claim', async () => {
  const { db } = await tinyDatabase()
  await enqueueTiny(db, 'a', 3)
  const source = tinySource(db, ['a'])
  const request = {
    worker: 'w1',
    limit: 10,
    leaseMs: 5_000,
    lanes: [{ type: 'a', from: null }],
    spareLeased: false,
    ceilingMs: 0,
  }
  const { items } = await source.claim(request)
  await source.release(items)
  expect((await source.claim({ ...request, worker: 'w2' })).items).toHaveLength(3)
})

test('K-17 a worker claims only the types it has, and every type gets its turn', async () => {
  const { db } = await tinyDatabase()
  await enqueueTiny(db, 'other', 50)
  await enqueueTiny(db, 'a', 50)
  await enqueueTiny(db, 'b', 50)
  const begun: string[] = []
  const worker = tinyWorker(db, {
    worker: 'w',
    types: ['a', 'b'],
    concurrency: 5,
    onItem: ({ what }) => void (what === 'recorded' && begun.push(what)),
  })
  worker.loop.start()
  await waitFor('both types are done', () => begun.length === 100)
  await worker.close()
  const [left] = await db.run({
    name: 'test.left',
    text: `select count(*)::int as n from holdfast.tiny where due_at is not null and type = 'other'`,
  })
  expect(left).toEqual({ n: 50 })
})

test('K-01 slots are refilled as they free up, not batch by batch', async () => {
  const { db } = await tinyDatabase()
  await enqueueTiny(db, 'a', 30)
  let first = true
  let others = 0
  let endFirst = () => {}
  const worker = tinyWorker(db, {
    worker: 'w',
    concurrency: 3,
    work: async () => {
      if (!first) {
        others += 1
        return
      }
      first = false
      await new Promise<void>((resolve) => {
        endFirst = resolve
      })
    },
  })
  worker.loop.start()
  await waitFor('29 others ran beside the slow one', () => others === 29)
  await waitFor('only the slow one is left', () => worker.loop.inFlight === 1)
  endFirst()
  await worker.close()
  expect((await tinyBooks(db)).done).toBe(30)
})

test('K-01 concurrency is never exceeded, however much is claimed ahead', async () => {
  const { db } = await tinyDatabase()
  await enqueueTiny(db, 'a', 500)
  let most = 0
  const worker = tinyWorker(db, {
    worker: 'w',
    concurrency: 7,
    work: async () => {
      most = Math.max(most, worker.loop.inFlight)
    },
  })
  worker.loop.start()
  await waitFor('all are done', async () => (await tinyBooks(db)).done === 500)
  await worker.close()
  expect(most).toBe(7)
})
