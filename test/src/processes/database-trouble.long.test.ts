import { startEmbedded } from '@holdfast/embedded'
import { startFaultProxy, startWorkerProcess, testDatabase, waitFor } from '@holdfast/testing/internal'
import { defineCommand, defineProcess, type Holdfast } from 'holdfast'
import { assemble, installQueue, migrate, openDatabase } from 'holdfast/internal'
import pg from 'pg'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { booksOf, endsOf, faultsIn, type ProcessBooks } from './books.js'
import { processesOf } from './definitions.js'
import { notesTable, openNotes } from './notes.js'

const script = new URL('../../dist/processes/worker-process.js', import.meta.url)

/** On the wire a statement ends with a zero; without it this is in `begin isolation level read committed` too. */
const COMMIT = 'commit\0'

/** A database with the tables of the notes, and the test's own way to it. */
async function openBooks(connectionString: string) {
  const pool = new pg.Pool({ connectionString, max: 4 })
  pool.on('error', () => undefined)
  await pool.query(notesTable)
  return pool
}

async function startSome(hf: Holdfast, domain: string, connectionString: string, each: number): Promise<string[]> {
  const notes = openNotes(connectionString, 1)
  const { Journey, Undone } = processesOf(domain, notes)
  const states = Array.from({ length: each }, () => ({ input: {} }))
  const journeys = await hf.startMany(Journey, states)
  const undone = await hf.startMany(Undone, states)
  // Answered before anybody has asked.
  await Promise.all(journeys.map(({ id }) => hf.process(Journey, id).respond('approved', { by: 'me' })))
  await notes.close()
  return [...journeys, ...undone].map(({ id }) => id)
}

const ended = async (pool: pg.Pool, ids: readonly string[]) => {
  const { rows } = await pool.query<{ n: number }>(
    `select count(*)::int as n from holdfast.process where id = any ($1) and status in ('COMPLETED', 'COMPENSATED')`,
    [ids],
  )
  return rows[0]?.n ?? 0
}

function checkEnds(books: readonly ProcessBooks[], crashes: number): void {
  const known = new Map<string, string[]>()
  for (const book of books) {
    expect(faultsIn(book, crashes)).toEqual([])
    expect(book.bookings).toHaveLength(1)
    // All of a kind have ended alike, whatever came between.
    const first = known.get(book.status) ?? endsOf(book)
    known.set(book.status, first)
    expect(endsOf(book)).toEqual(first)
  }
  expect([...known.keys()].sort()).toEqual(['COMPENSATED', 'COMPLETED'])
}

test('P-17 K-11 PostgreSQL killed and restarted while 40 processes run: nothing is lost and nothing recorded is called again', async () => {
  const server = await startEmbedded({ ephemeral: true, settings: { fsync: 'on', synchronous_commit: 'on' } })
  const { connectionString } = server
  const db = await openDatabase({ connectionString })
  await migrate(db)
  await installQueue(db)
  const pool = await openBooks(connectionString)
  const hf = assemble(db, {})
  const ids = await startSome(hf, 'restarts', connectionString, 20)
  // Longer than a busy machine keeps a worker from its heartbeat after the restart: a call under way is not made twice.
  const options = { connectionString, domain: 'restarts', concurrency: 10, lease: '3s' }
  const workers = [1, 2].map(() => startWorkerProcess(script, options))
  const come = (count: number) => waitFor(`${count} have ended`, () => goneBy(count), { timeout: 60_000 })
  const goneBy = async (count: number) => (await ended(pool, ids).catch(() => 0)) >= count
  await come(5)
  await server.kill()
  await server.restart()
  await come(20)
  await server.kill()
  await server.restart()
  await come(40)
  checkEnds(await booksOf(pool, ids), 2)
  for (const worker of workers) await worker.kill()
  await pool.end()
  await hf.close()
  await server.stop()
}, 240_000)

test('K-11 P-11 respond waits out an outage of the database, like send and start', async () => {
  const server = await startEmbedded({ ephemeral: true, settings: { fsync: 'on', synchronous_commit: 'on' } })
  const { connectionString } = server
  const db = await openDatabase({ connectionString })
  await migrate(db)
  await installQueue(db)
  const hf = assemble(db, {})
  const Do = defineCommand('outage', 'Do')
  const Asks = defineProcess('outage', 'Asks', {
    state: z.object({ told: z.number() }),
    responses: {
      told: {
        data: z.number(),
        apply: (state: { told: number }, n: number) => {
          state.told += n
        },
      },
    },
    async execute(ctx, state) {
      await ctx.wait('all', () => state.told === 3)
      return state.told
    },
  })
  const { id } = await hf.start(Asks, { told: 0 }, { immediate: false })
  await hf.send(Do, null)
  await server.kill()
  const calls = [
    hf.process(Asks, id).respond('told', 1),
    hf.process(Asks, id).respond('told', 2, { responseId: 'two' }),
    hf.send(Do, null),
    hf.start(Asks, { told: 3 }, { immediate: false }),
  ]
  await server.restart()
  const answers = await Promise.allSettled(calls)
  expect(answers.filter(({ status }) => status === 'rejected')).toEqual([])
  hf.register(Asks)
  await hf.run({ domains: ['outage'], poll: '50ms' })
  expect(await hf.process(Asks, id).result()).toBe(3)
  await hf.close()
  await server.stop()
}, 120_000)

/** A worker of this process behind a proxy that a test can tell to misbehave. */
async function workBehindProxy(domain: string) {
  const { connectionString } = await testDatabase()
  const pool = await openBooks(connectionString)
  const proxy = await startFaultProxy(connectionString)
  const notes = openNotes(connectionString)
  const db = await openDatabase({ connectionString: proxy.connectionString, prepare: 'off' })
  const hf = assemble(db, {})
  const processes = processesOf(domain, notes)
  processes.registerAll(hf)
  const work = () => hf.run({ concurrency: 10, lease: '2s', poll: '50ms', domains: [domain] })
  async function close() {
    await hf.close()
    await notes.close()
    await proxy.close()
    await pool.end()
  }
  return { connectionString, pool, proxy, hf, processes, work, close }
}

test('K-05 P-17 a flush whose answer is lost is repeated, and nothing is called or recorded twice', async () => {
  const { connectionString, pool, proxy, hf, work, close } = await workBehindProxy('lost-answers')
  const ids = await startSome(hf, 'lost-answers', connectionString, 10)
  await work()
  for (let lost = 0; lost < 8; lost++) await proxy.swallowAnswerTo('write_processes')
  await waitFor('all have ended', async () => (await ended(pool, ids)) === ids.length, { timeout: 60_000 })
  checkEnds(await booksOf(pool, ids), 0)
  await close()
}, 120_000)

test('P-05 a transaction whose commit gets no response takes effect once', async () => {
  const { pool, proxy, hf, processes, work, close } = await workBehindProxy('lost-commits')
  const { id } = await hf.start(processes.Undone, {}, { immediate: false })
  const swallowed = proxy.swallowAnswerTo(COMMIT)
  await work()
  await swallowed
  await waitFor('it has ended', async () => (await ended(pool, [id])) === 1, { timeout: 60_000 })
  const [book] = await booksOf(pool, [id])
  expect(book).toMatchObject({ status: 'COMPENSATED', bookings: ['undone'] })
  expect(book && faultsIn(book, 0)).toEqual([])
  await close()
}, 90_000)

test('P-05 a connection that is lost while its commit is still under way: the transaction is not repeated beside it', async () => {
  const { pool, proxy, hf, processes, work, close } = await workBehindProxy('slow-commits')
  // The commit takes its time, and the server goes on with it whoever has hung up.
  await pool.query(`
    create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(1); return null; end $$;
    create constraint trigger slowly after insert on booking deferrable initially deferred
      for each row execute function slow()`)
  const { id } = await hf.start(processes.Undone, {}, { immediate: false })
  const lost = proxy.hangUpAfter(COMMIT)
  await work()
  await lost
  await waitFor('it has ended', async () => (await ended(pool, [id])) === 1, { timeout: 60_000 })
  const [book] = await booksOf(pool, [id])
  expect(book).toMatchObject({ status: 'COMPENSATED', bookings: ['undone'] })
  expect(book && faultsIn(book, 0)).toEqual([])
  await close()
}, 90_000)
