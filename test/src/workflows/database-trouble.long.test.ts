import { startEmbedded } from '@holdfast/embedded'
import { startFaultProxy, startWorkerProcess, testDatabase, waitFor } from '@holdfast/testing/internal'
import type { Holdfast } from 'holdfast'
import { assemble, installQueue, migrate, openDatabase } from 'holdfast/internal'
import pg from 'pg'
import { expect, test } from 'vitest'
import { booksOf, faultsIn, type InstanceBooks } from './books.js'
import { workflowsOf } from './definitions.js'
import { notesTable, openNotes } from './notes.js'

const script = new URL('../../dist/workflows/worker-process.js', import.meta.url)

/** On the wire a statement ends with a zero; without it this is in `begin isolation level read committed` too. */
const COMMIT = 'commit\0'

/** A database with the tables of the notes, and the test's own way to it. */
async function openBooks(connectionString: string) {
  const pool = new pg.Pool({ connectionString, max: 4 })
  pool.on('error', () => undefined)
  await pool.query(notesTable)
  return pool
}

async function startSome(hf: Holdfast, round: string, each: number): Promise<string[]> {
  const { Journey, Undone } = workflowsOf(round)
  const starts = Array.from({ length: each }, () => [hf.start(Journey), hf.start(Undone)])
  return (await Promise.all(starts.flat())).map(({ id }) => id)
}

const ended = async (pool: pg.Pool, ids: readonly string[]) => {
  const { rows } = await pool.query<{ n: number }>(
    `select count(*)::int as n from holdfast.workflow where id = any ($1) and status in ('COMPLETED', 'FAILED')`,
    [ids],
  )
  return rows[0]?.n ?? 0
}

function checkEnds(books: readonly InstanceBooks[]): void {
  for (const book of books) {
    expect(faultsIn(book)).toEqual([])
    if (book.status === 'COMPLETED') expect(book.bookings).toEqual(['book'])
    else expect(book).toMatchObject({ failedStep: 'declined', bookings: ['third', 'undo declined'] })
  }
  const statuses = books.map(({ status }) => status)
  expect(statuses.filter((status) => status === 'COMPLETED')).toHaveLength(books.length / 2)
}

test('W-05 W-08 PostgreSQL killed and restarted while 24 instances run: nothing is lost, and nothing is recorded twice', async () => {
  const server = await startEmbedded({ ephemeral: true, settings: { fsync: 'on', synchronous_commit: 'on' } })
  const { connectionString } = server
  const db = await openDatabase({ connectionString })
  await migrate(db)
  await installQueue(db)
  const pool = await openBooks(connectionString)
  const hf = assemble(db, {})
  const ids = await startSome(hf, 'restarts', 12)
  const workers = [1, 2].map(() => startWorkerProcess(script, { connectionString, round: 'restarts' }))
  const goneBy = async (count: number) => (await ended(pool, ids).catch(() => 0)) >= count
  const come = (count: number) => waitFor(`${count} have ended`, () => goneBy(count), { timeout: 90_000 })
  await come(4)
  await server.kill()
  await server.restart()
  await come(12)
  await server.kill()
  await server.restart()
  await come(24)
  checkEnds(await booksOf(pool, ids))
  for (const worker of workers) await worker.kill()
  await pool.end()
  await hf.close()
  await server.stop()
}, 300_000)

/** A worker of this process behind a proxy that a test can tell to misbehave. */
async function workBehindProxy(round: string) {
  const { connectionString } = await testDatabase()
  const pool = await openBooks(connectionString)
  const proxy = await startFaultProxy(connectionString)
  const notes = openNotes(connectionString)
  const hf = assemble(await openDatabase({ connectionString: proxy.connectionString, prepare: 'off' }), {})
  workflowsOf(round).handleAll(hf, notes)
  async function close() {
    await hf.close()
    await notes.close()
    await proxy.close()
    await pool.end()
  }
  return {
    pool,
    proxy,
    hf,
    work: () => hf.run({ concurrency: 10, lease: '2s', poll: '50ms' }),
    allEnd: (ids: readonly string[]) =>
      waitFor('all have ended', async () => (await ended(pool, ids)) === ids.length, { timeout: 60_000 }),
    close,
  }
}

test('K-05 a flush whose answer is lost is repeated, and nothing is called or recorded twice', async () => {
  const { pool, proxy, hf, work, allEnd, close } = await workBehindProxy('lost answers')
  const ids = await startSome(hf, 'lost answers', 8)
  await work()
  for (let lost = 0; lost < 6; lost += 1) await proxy.swallowAnswerTo('write_workflow_changes')
  await allEnd(ids)
  checkEnds(await booksOf(pool, ids))
  await close()
}, 120_000)

test('W-05 transactions whose commits get no response take effect once', async () => {
  const { pool, proxy, hf, work, allEnd, close } = await workBehindProxy('lost commits')
  const ids = await startSome(hf, 'lost commits', 4)
  const swallowed = proxy.swallowAnswerTo(COMMIT)
  await work()
  await swallowed
  await proxy.swallowAnswerTo(COMMIT)
  await allEnd(ids)
  checkEnds(await booksOf(pool, ids))
  await close()
}, 120_000)

test('W-05 W-08 all connections cut, again and again: every instance ends, and nothing is recorded twice', async () => {
  const { pool, proxy, hf, work, allEnd, close } = await workBehindProxy('cut')
  const ids = await startSome(hf, 'cut', 15)
  await work()
  for (const count of [3, 10, 20]) {
    await waitFor(`${count} have ended`, async () => (await ended(pool, ids)) >= count, { timeout: 60_000 })
    proxy.cut()
  }
  await allEnd(ids)
  checkEnds(await booksOf(pool, ids))
  await close()
}, 120_000)
