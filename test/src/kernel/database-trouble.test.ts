import { startEmbedded } from '@holdfast/embedded'
import {
  countStatements,
  startFaultProxy,
  startPgBouncer,
  startWorkerProcess,
  waitFor,
} from '@holdfast/testing/internal'
import { migrate, newId, openDatabase, startListener } from 'holdfast/internal'
import pg from 'pg'
import { expect, test } from 'vitest'
import {
  enqueueTiny,
  installTinyModel,
  tinyBooks,
  tinyFinishes,
  tinySource,
  tinyWorker,
  tinyWorkerScript,
} from '../tiny-model/index.js'
import { tinyDatabase } from './tiny-database.js'

test('K-11 PostgreSQL restarted and killed in the middle loses nothing, and no worker exits', async () => {
  const server = await startEmbedded({ ephemeral: true, settings: { fsync: 'on', synchronous_commit: 'on' } })
  const { connectionString } = server
  const db = await openDatabase({ connectionString })
  await migrate(db)
  await installTinyModel(db)
  const total = 1_500
  await enqueueTiny(db, 'a', total)
  const options = { connectionString, leaseMs: 1_500, workMs: 40, concurrency: 20, pollMs: 100 }
  const workers = ['w1', 'w2'].map((worker) => startWorkerProcess(tinyWorkerScript, { ...options, worker }))
  const doneOver = (count: number) => async () => (await tinyBooks(db)).done > count
  await waitFor('both workers are there', () => workers.every(({ messages }) => messages.length > 0))
  await waitFor('work is under way', doneOver(100))
  await server.restart('fast')
  await waitFor('it goes on after a restart', doneOver(500), { timeout: 60_000 })
  await server.kill()
  await server.restart()
  await waitFor('it goes on after a crash', doneOver(1_000), { timeout: 60_000 })
  await waitFor('all are done', doneOver(total - 1), { timeout: 60_000 })
  for (const worker of workers) worker.send({ stop: true })
  expect(await Promise.all(workers.map((worker) => worker.ended))).toEqual([
    { code: 0, signal: null },
    { code: 0, signal: null },
  ])
  expect(await tinyBooks(db)).toMatchObject({ items: total, done: total, audits: total })
  await db.close()
  await server.stop()
}, 180_000)

test('K-03 after an outage a worker extends first, and expired leases of others wait for a heartbeat', async () => {
  const { db, connectionString, open } = await tinyDatabase()
  await enqueueTiny(db, 'a', 10)
  const busyProxy = await startFaultProxy(connectionString)
  const idleProxy = await startFaultProxy(connectionString)
  const statements = countStatements()
  const busyDb = await open({ connectionString: busyProxy.connectionString })
  const idleDb = await open({ connectionString: idleProxy.connectionString, faults: statements.faults })
  let finish = () => {}
  const gate = new Promise<void>((resolve) => {
    finish = resolve
  })
  const options = { leaseMs: 6_000, pollMs: 50, concurrency: 10 }
  const busy = tinyWorker(busyDb, { worker: 'busy', ...options, work: () => gate })
  busy.loop.start()
  await waitFor('ten are running', async () => (await tinyBooks(db)).effects === 10)
  const idle = tinyWorker(idleDb, { worker: 'idle', ...options })
  idle.loop.start()
  const leased = async (condition: string) => {
    const text = `select count(*)::int as n from holdfast.tiny where leased_by = 'busy' and ${condition}`
    const [row] = await db.run<{ n: number }>({ name: 'test.leased', text })
    return row?.n === 10
  }
  for (const proxy of [busyProxy, idleProxy]) {
    proxy.refuse(true)
    proxy.cut()
  }
  await waitFor('the outage has outlasted every lease', () => leased('due_at < holdfast.now()'))
  // The idle worker is back first and looks, with ten expired leases before its eyes.
  const looks = statements.counts.get('tiny.claim') ?? 0
  idleProxy.refuse(false)
  await waitFor('the idle worker has looked', () => (statements.counts.get('tiny.claim') ?? 0) > looks + 1)
  busyProxy.refuse(false)
  await waitFor('the busy worker has extended', () => leased('due_at > holdfast.now()'))
  finish()
  await waitFor('all are done', async () => (await tinyBooks(db)).done === 10)
  expect(await tinyBooks(db)).toEqual({ items: 10, done: 10, repeated: 0, effects: 10, audits: 10 })
  await busy.close()
  await idle.close()
  await busyProxy.close()
  await idleProxy.close()
})

test('K-11 connections that are cut again and again delay work and lose nothing', async () => {
  const { db, connectionString, open } = await tinyDatabase()
  const proxy = await startFaultProxy(connectionString)
  const cutDb = await open({ connectionString: proxy.connectionString })
  await enqueueTiny(db, 'a', 500)
  const worker = tinyWorker(cutDb, { worker: 'w', leaseMs: 1_000, workMs: 5, concurrency: 10, pollMs: 50 })
  worker.loop.start()
  for (let cut = 1; cut <= 5; cut++) {
    await waitFor('some more are done', async () => (await tinyBooks(db)).done >= cut * 50)
    proxy.cut()
  }
  await waitFor('all are done', async () => (await tinyBooks(db)).done === 500)
  await worker.close()
  expect(await tinyBooks(db)).toMatchObject({ items: 500, done: 500, audits: 500 })
  await proxy.close()
})

test('K-05 a flush whose answer is lost is repeated and recognises its own earlier success', async () => {
  const { db, connectionString, open } = await tinyDatabase()
  const proxy = await startFaultProxy(connectionString)
  const cutDb = await open({ connectionString: proxy.connectionString, prepare: 'off' })
  const ids = await enqueueTiny(db, 'a', 20)
  const lanes = [{ type: 'a', from: null }]
  await tinySource(db, ['a']).claim({
    worker: 'w',
    limit: 20,
    leaseMs: 60_000,
    lanes,
    spareLeased: false,
    ceilingMs: 0,
  })
  const swallowed = proxy.swallowAnswerTo('tiny_finish')
  const finishes = tinyFinishes(cutDb)
  await Promise.all(ids.map((id) => finishes.write({ id, epoch: 1, token: newId() })))
  await swallowed
  expect(await tinyBooks(db)).toMatchObject({ done: 20, audits: 20 })
  await proxy.close()
})

test('K-05 a bad row in a flush fails its own caller and its neighbours are committed', async () => {
  const { db } = await tinyDatabase()
  const ids = await enqueueTiny(db, 'a', 9)
  const lanes = [{ type: 'a', from: null }]
  await tinySource(db, ['a']).claim({
    worker: 'w',
    limit: 20,
    leaseMs: 60_000,
    lanes,
    spareLeased: false,
    ceilingMs: 0,
  })
  const finishes = tinyFinishes(db)
  const results = await Promise.allSettled(
    ids.map((id, n) => finishes.write({ id, epoch: 1, token: n === 4 ? 'not a uuid' : newId() })),
  )
  expect(results.map(({ status }) => status === 'fulfilled')).toEqual(ids.map((_, n) => n !== 4))
  expect(results[4]).toMatchObject({ reason: { code: '22P02' } })
  expect(await tinyBooks(db)).toMatchObject({ done: 8, audits: 8 })
})

test('K-05 a row locked by another transaction delays no other write', async () => {
  const { db, connectionString } = await tinyDatabase()
  const ids = await enqueueTiny(db, 'a', 20)
  const lanes = [{ type: 'a', from: null }]
  await tinySource(db, ['a']).claim({
    worker: 'w',
    limit: 20,
    leaseMs: 60_000,
    lanes,
    spareLeased: false,
    ceilingMs: 0,
  })
  const client = new pg.Client({ connectionString })
  await client.connect()
  await client.query('begin')
  await client.query('select from holdfast.tiny where id = $1 for update', [ids[7]])
  const finishes = tinyFinishes(db)
  const writes = ids.map((id) => finishes.write({ id, epoch: 1, token: newId() }))
  await Promise.all(writes.filter((_, n) => n !== 7))
  expect(finishes.pending).toBe(1)
  await client.query('commit')
  await client.end()
  await writes[7]
  expect(await tinyBooks(db)).toMatchObject({ done: 20, audits: 20 })
})

test('K-11 a pool of one connection is enough', async () => {
  const { db, open } = await tinyDatabase()
  const narrow = await open({ poolSize: 1 })
  await enqueueTiny(db, 'a', 300)
  const worker = tinyWorker(narrow, { worker: 'w', leaseMs: 600, workMs: 30, concurrency: 50 })
  worker.loop.start()
  await waitFor('all are done', async () => (await tinyBooks(db)).done === 300)
  await worker.close()
  expect(await tinyBooks(db)).toEqual({ items: 300, done: 300, repeated: 0, effects: 300, audits: 300 })
})

test('K-04 everything works behind PgBouncer in transaction mode; polling continues without LISTEN', async (context) => {
  const { db, connectionString, open } = await tinyDatabase()
  const bouncer = await startPgBouncer(connectionString)
  if (!bouncer) return context.skip('PgBouncer is not installed')
  const warnings: string[] = []
  const ignore = () => undefined
  const logger = {
    debug: ignore,
    info: ignore,
    warn: (_: object, message: string) => void warnings.push(message),
    error: ignore,
  }
  const bounced = await open({ connectionString: bouncer.connectionString, logger })
  const listener = startListener(bounced, { logger, proofMs: 200 })
  await enqueueTiny(db, 'a', 500)
  const worker = tinyWorker(bounced, {
    worker: 'w',
    leaseMs: 600,
    workMs: 20,
    concurrency: 50,
    pollMs: 50,
    listener,
    logger,
  })
  worker.loop.start()
  await waitFor('all are done', async () => (await tinyBooks(db)).done === 500)
  await worker.close()
  await listener.close()
  expect(await tinyBooks(db)).toEqual({ items: 500, done: 500, repeated: 0, effects: 500, audits: 500 })
  await bounced.close()
  await bouncer.stop()
})
