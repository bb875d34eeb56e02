import { countStatements, startFaultProxy, waitFor } from '@holdfast/testing/internal'
import { pauseWork, resumeWork, startListener, wakeTopic } from 'holdfast/internal'
import pg from 'pg'
import { expect, test } from 'vitest'
import { enqueueTiny, tinyBooks, tinyWorker } from '../tiny-model/index.js'
import { tinyDatabase } from './tiny-database.js'

const FAR = 600_000

/** Counts the notifications of an installation as a listener of its own. */
async function countNotifications(connectionString: string) {
  const client = new pg.Client({ connectionString })
  await client.connect()
  const { rows } = await client.query('select holdfast.wake_channel() as channel')
  let received = 0
  client.on('notification', () => {
    received += 1
  })
  await client.query(`listen "${rows[0].channel}"`)
  return {
    /** Everything that was committed before this call has arrived when it resolves. */
    async count() {
      await client.query('select 1')
      return received
    },
    close: () => client.end(),
  }
}

test('K-06 an idle worker is woken by a notification, long before its poll', async () => {
  const { db } = await tinyDatabase()
  const listener = startListener(db)
  const worker = tinyWorker(db, { worker: 'w', pollMs: FAR, leaseMs: FAR, listener })
  worker.loop.start()
  await waitFor('it listens', () => listener.isListening)
  for (let n = 1; n <= 5; n++) {
    await enqueueTiny(db, 'a', 1)
    await waitFor('it is done', async () => (await tinyBooks(db)).done === n)
  }
  await worker.close()
  await listener.close()
})

test('K-06 a poll is timed to the next due time', async () => {
  const { db } = await tinyDatabase()
  await enqueueTiny(db, 'a', 1, 700)
  const worker = tinyWorker(db, { worker: 'w', pollMs: FAR, leaseMs: FAR })
  worker.loop.start()
  await waitFor('it is done', async () => (await tinyBooks(db)).done === 1)
  await worker.close()
})

test("K-06 a burst of sends causes a bounded number of notifications, also from callers' own transactions", async () => {
  const { db, connectionString } = await tinyDatabase()
  const notifications = await countNotifications(connectionString)
  const pool = new pg.Pool({ connectionString, max: 20 })
  const began = performance.now()
  await Promise.all(
    Array.from({ length: 1_000 }, async () => {
      const client = await pool.connect()
      await client.query('begin')
      await enqueueTiny(db.inside(client), 'a', 1)
      await client.query('commit')
      client.release()
    }),
  )
  const milliseconds = performance.now() - began
  const received = await notifications.count()
  // One in five milliseconds, and a few more where two senders asked in the same instant.
  expect(received).toBeLessThan(milliseconds / 5 + 50)
  expect(received).toBeGreaterThan(0)
  await pool.end()
  await notifications.close()
})

test('K-06 no sender waits for another because of a notification', async () => {
  const { db, connectionString } = await tinyDatabase()
  const held = new pg.Client({ connectionString })
  await held.connect()
  await held.query('begin')
  await enqueueTiny(db.inside(held), 'a', 1)
  // The first sender stays open; the others would hang here if they waited for it.
  await Promise.all(Array.from({ length: 20 }, () => enqueueTiny(db, 'a', 1)))
  await held.query('commit')
  await held.end()
})

test('K-06 work whose notification was throttled is found soon after', async () => {
  const { db, connectionString } = await tinyDatabase()
  const listener = startListener(db)
  const worker = tinyWorker(db, { worker: 'w', pollMs: FAR, leaseMs: FAR, listener })
  worker.loop.start()
  await waitFor('it listens', () => listener.isListening)
  const client = new pg.Client({ connectionString })
  await client.connect()
  // Its own wake-up is skipped, because somebody else has just notified; it commits after the worker has looked.
  await client.query('begin')
  await wakeTopic(db, 'tiny:a')
  await enqueueTiny(db.inside(client), 'a', 1)
  await waitFor('the worker has looked', async () => true)
  await client.query('commit')
  await client.end()
  await waitFor('it is done', async () => (await tinyBooks(db)).done === 1)
  await worker.close()
  await listener.close()
})

test('K-06 an idle worker makes fewer than two statements per second', async () => {
  const { open } = await tinyDatabase()
  const statements = countStatements()
  const db = await open({ faults: statements.faults })
  const listener = startListener(db)
  const worker = tinyWorker(db, { worker: 'w', pollMs: 1_000, listener })
  worker.loop.start()
  await waitFor('it listens', () => listener.isListening)
  await waitFor('it has settled', () => (statements.counts.get('tiny.claim') ?? 0) >= 6)
  const before = statements.total()
  const began = performance.now()
  await waitFor('four more polls', () => statements.total() >= before + 4)
  const seconds = (performance.now() - began) / 1_000
  expect((statements.total() - before) / seconds).toBeLessThan(2)
  await worker.close()
  await listener.close()
})

test('K-06 a listener that loses its connection comes back, and what was sent meanwhile is found', async () => {
  const { db, connectionString, open } = await tinyDatabase()
  const proxy = await startFaultProxy(connectionString)
  const listening = await open({ connectionString, directConnectionString: proxy.connectionString })
  const listener = startListener(listening)
  const worker = tinyWorker(db, { worker: 'w', pollMs: FAR, leaseMs: FAR, listener })
  worker.loop.start()
  await waitFor('it listens', () => listener.isListening)
  proxy.refuse(true)
  proxy.cut()
  await waitFor('it has noticed', () => !listener.isListening)
  await enqueueTiny(db, 'a', 1)
  proxy.refuse(false)
  await waitFor('it is done', async () => (await tinyBooks(db)).done === 1)
  await worker.close()
  await listener.close()
  await proxy.close()
})

test('K-18 what is paused is not claimed, from the moment the pause commits until it is resumed', async () => {
  const { db } = await tinyDatabase()
  const by = { actor: 'ann', reason: 'the bank is down' }
  const listener = startListener(db)
  const worker = tinyWorker(db, { worker: 'w', types: ['a', 'b'], pollMs: FAR, leaseMs: FAR, listener })
  worker.loop.start()
  await waitFor('it listens', () => listener.isListening)
  expect(await pauseWork(db, { handler: 'a' }, by, () => true)).toBe(true)
  await enqueueTiny(db, 'a', 5)
  await enqueueTiny(db, 'b', 5)
  await waitFor('the other type goes on', async () => (await tinyBooks(db)).done === 5)
  const [paused] = await db.run({
    name: 'test.paused',
    text: `select count(*)::int as n from holdfast.tiny where type = 'a' and due_at is not null and leased_at is null`,
  })
  expect(paused).toEqual({ n: 5 })
  expect(await resumeWork(db, { handler: 'a' }, by)).toBe(true)
  await waitFor('the paused type goes on at once', async () => (await tinyBooks(db)).done === 10)
  await worker.close()
  await listener.close()
})

test('K-06 a listening connection that hangs is detected and replaced', async () => {
  const { connectionString, open } = await tinyDatabase()
  const proxy = await startFaultProxy(connectionString)
  const db = await open({ connectionString, directConnectionString: proxy.connectionString })
  const listener = startListener(db, { proofMs: 200, proveEveryMs: 50 })
  await waitFor('it listens', () => listener.isListening)
  proxy.hang(true)
  await waitFor('it has noticed', () => !listener.isListening)
  proxy.hang(false)
  await waitFor('it listens again', () => listener.isListening)
  await listener.close()
  await proxy.close()
})
