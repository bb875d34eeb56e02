import { waitFor } from '@holdfast/testing/internal'
import { expect, test } from 'vitest'
import { enqueueTiny, tinyBooks, tinyWorker } from '../tiny-model/index.js'
import { tinyDatabase } from './tiny-database.js'

const never = () => new Promise<void>(() => undefined)

test('K-01 stop drains: what runs is finished, what has not begun is released at once', async () => {
  const { db } = await tinyDatabase()
  await enqueueTiny(db, 'a', 400)
  let finish = () => {}
  let gate = Promise.resolve()
  const worker = tinyWorker(db, { worker: 'w', concurrency: 10, work: () => gate })
  worker.loop.start()
  await waitFor('it works ahead of its slots', async () => (await tinyBooks(db)).done > 100)
  gate = new Promise((resolve) => {
    finish = resolve
  })
  await waitFor('its slots are full', () => worker.loop.inFlight === 10)
  const stopped = worker.loop.stop(10_000)
  expect(worker.loop.isRunning).toBe(false)
  finish()
  expect(await stopped).toEqual({ abandoned: 0 })
  const [leased] = await db.run({
    name: 'test.leased',
    text: 'select count(*)::int as n from holdfast.tiny where leased_at is not null',
  })
  expect(leased).toEqual({ n: 0 })
  const books = await tinyBooks(db)
  expect(books.repeated).toBe(0)
  expect(books.done).toBe(books.effects)
})

test('K-01 stop abandons what does not end in time, and says how much', async () => {
  const { db } = await tinyDatabase()
  await enqueueTiny(db, 'a', 3)
  const reasons: unknown[] = []
  let listening = 0
  const worker = tinyWorker(db, {
    worker: 'w',
    work: (_item, lease) => {
      lease.signal.addEventListener('abort', () => reasons.push(lease.signal.reason))
      listening += 1
      return never()
    },
  })
  worker.loop.start()
  await waitFor('all run and listen to their signal', () => listening === 3)
  expect(await worker.loop.stop(50)).toEqual({ abandoned: 3 })
  expect(reasons).toHaveLength(3)
  expect(reasons[0]).toMatchObject({ code: 'HF_STOPPED' })
})

test('K-01 a second start or stop does nothing, and a stopped loop stays stopped', async () => {
  const { db } = await tinyDatabase()
  await enqueueTiny(db, 'a', 1)
  const worker = tinyWorker(db, { worker: 'w' })
  worker.loop.start()
  worker.loop.start()
  expect(worker.loop.isRunning).toBe(true)
  await waitFor('it is done', async () => (await tinyBooks(db)).done === 1)
  await Promise.all([worker.loop.stop(), worker.loop.stop()])
  expect(worker.loop.isRunning).toBe(false)
  expect(() => worker.loop.start()).toThrowError(expect.objectContaining({ code: 'HF_STOPPED' }))
  expect((await tinyBooks(db)).effects).toBe(1)
})

test('K-02 stopNow aborts what runs and leaves it to the end of its lease', async () => {
  const { db } = await tinyDatabase()
  await enqueueTiny(db, 'a', 1)
  let aborted = false
  let listening = false
  const worker = tinyWorker(db, {
    worker: 'w',
    work: (_item, lease) => {
      lease.signal.addEventListener('abort', () => {
        aborted = true
      })
      listening = true
      return never()
    },
  })
  worker.loop.start()
  await waitFor('it runs and listens to its signal', () => listening)
  worker.loop.stopNow()
  await waitFor('it was told', () => aborted)
  const [row] = await db.run({
    name: 'test.leased',
    text: 'select leased_by, due_at > holdfast.now() as leased from holdfast.tiny',
  })
  expect(row).toEqual({ leased_by: 'w', leased: true })
})

test('K-01 an error that escapes the code of an item is logged and leaves the item to its lease', async () => {
  const { db } = await tinyDatabase()
  await enqueueTiny(db, 'a', 2)
  const logged: object[] = []
  let calls = 0
  const ignore = () => undefined
  const worker = tinyWorker(db, {
    worker: 'w',
    leaseMs: 300,
    pollMs: 20,
    logger: { debug: ignore, info: ignore, warn: ignore, error: (fields) => void logged.push(fields) },
    work: async () => {
      calls += 1
      if (calls === 1) throw new Error('a mistake of ours')
    },
  })
  worker.loop.start()
  await waitFor('both are done in the end', async () => (await tinyBooks(db)).done === 2)
  await worker.close()
  expect(calls).toBe(3)
  expect(logged).toMatchObject([{ err: { message: 'a mistake of ours' }, type: 'a' }])
})
