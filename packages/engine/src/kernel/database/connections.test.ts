import { startFaultProxy, testDatabase, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import type { Database } from './database.js'
import { openDatabase } from './open.js'
import type { DatabaseOptions } from './options.js'
import { isTransient, outcomeUnknown } from './transient.js'

const { connectionString } = await testDatabase({ empty: true })

const backend = { name: 'backend', text: 'select pg_backend_pid() as pid' }
const terminate = { name: 'terminate', text: 'select pg_terminate_backend($1::int)' }
const napping = { name: 'nap', text: 'select pg_sleep(60)' }

async function open(options: DatabaseOptions = {}): Promise<Database> {
  const db = await openDatabase({ connectionString, ...options })
  onTestFinished(() => db.close())
  return db
}

/** A second way in, for killing connections of the first. */
const operator = await openDatabase({ connectionString })

async function backendOf(db: Database): Promise<number> {
  const [row] = await db.run<{ pid: number }>(backend)
  return row?.pid ?? 0
}

async function kill(pid: number): Promise<void> {
  await operator.run(terminate, [pid])
  const still = { name: 'still there', text: 'select 1 from pg_stat_activity where pid = $1::int' }
  await waitFor('the backend is gone', async () => (await operator.run(still, [pid])).length === 0)
}

async function runningNap(): Promise<number> {
  const find = {
    name: 'find nap',
    text: "select pid from pg_stat_activity where query = 'select pg_sleep(60)' and state = 'active'",
  }
  return waitFor('the statement runs', async () => (await operator.run<{ pid: number }>(find))[0]?.pid)
}

test('K-11 a data error keeps its connection', async () => {
  const db = await open({ poolSize: 1 })
  const before = await backendOf(db)
  await expect(db.run({ name: 'divide', text: 'select 1 / $1::int' }, [0])).rejects.toMatchObject({ code: '22012' })
  await expect(db.transaction((tx) => tx.query('select nonsense'))).rejects.toMatchObject({ code: '42703' })
  await expect(db.transaction(async () => Promise.reject(new Error('changed my mind')))).rejects.toThrow(
    'changed my mind',
  )
  expect(await backendOf(db)).toBe(before)
})

test('K-11 a connection that is killed while idle is replaced without an error', async () => {
  const db = await open({ poolSize: 1 })
  const before = await backendOf(db)
  await kill(before)
  // The pool may hear of it only now; either way no process ends and the next call but one works.
  const after = await backendOf(db).catch(() => backendOf(db))
  expect(after).not.toBe(before)
})

test("K-11 an idle connection of a user's pool that is killed does not end the process", async () => {
  const pool = new pg.Pool({ connectionString, max: 1 })
  onTestFinished(() => pool.end())
  const db = await openDatabase({ pool })
  onTestFinished(() => db.close())
  const lost = new Promise((resolve) => pool.once('remove', resolve))
  await kill(await backendOf(db))
  await lost
  expect(await backendOf(db)).toBeGreaterThan(0)
})

test('K-11 a connection that is killed under a statement is a transient error with an unknown outcome', async () => {
  const db = await open({ poolSize: 1 })
  const running = db.run(napping).catch((error: unknown) => error)
  await kill(await runningNap())
  const error = await running
  expect({ again: isTransient(error), unknown: outcomeUnknown(error) }).toEqual({ again: true, unknown: true })
  expect(await db.run({ name: 'one', text: 'select 1 as one' })).toEqual([{ one: 1 }])
})

test('K-11 a hung connection is closed after the time limit and replaced', async () => {
  const proxy = await startFaultProxy(connectionString)
  onTestFinished(() => proxy.close())
  const db = await open({ connectionString: proxy.connectionString, poolSize: 1, statementTimeout: 200 })
  proxy.hang(true)
  const error = await db.run(backend).catch((thrown: unknown) => thrown)
  expect({ again: isTransient(error), unknown: outcomeUnknown(error) }).toEqual({ again: true, unknown: true })
  proxy.hang(false)
  expect(await backendOf(db)).toBeGreaterThan(0)
})

test('K-11 a server that cannot be reached for a while is a transient error, and nothing was sent', async () => {
  const proxy = await startFaultProxy(connectionString)
  onTestFinished(() => proxy.close())
  const db = await open({ connectionString: proxy.connectionString, poolSize: 1 })
  proxy.refuse(true)
  proxy.cut()
  const error = await waitFor('the pool has noticed', () =>
    db.run(backend).then(
      () => undefined,
      (thrown: unknown) => (thrown instanceof Error && 'next' in thrown ? thrown : undefined),
    ),
  )
  expect(error).toMatchObject({ code: 'HF_DATABASE_UNREACHABLE' })
  expect({ again: isTransient(error), unknown: outcomeUnknown(error) }).toEqual({ again: true, unknown: false })
  proxy.refuse(false)
  expect(await backendOf(db)).toBeGreaterThan(0)
})

test('a pool of one connection serves many callers in turn', async () => {
  const db = await open({ poolSize: 1 })
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, number) => db.run({ name: 'echo', text: 'select $1::int as number' }, [number])),
  )
  expect(answers.flat()).toEqual(Array.from({ length: 20 }, (_, number) => ({ number })))
})

test('statements are prepared under a name of their text, unless that is switched off', async () => {
  const mine = {
    name: 'mine',
    text: "select name from pg_prepared_statements where statement like '%pg_prepared_statements%'",
  }
  const auto = await open({ poolSize: 1 })
  expect(await auto.run(mine)).toEqual([{ name: expect.stringMatching(/^hf_[0-9a-f]{20}_0$/) }])
  const off = await open({ poolSize: 1, prepare: 'off' })
  expect(await off.run(mine)).toEqual([])
})

test('a prepared statement whose table has changed is planned again, in the pool and in a transaction', async () => {
  const db = await open({ poolSize: 2 })
  await db.transaction(async (tx) => void (await tx.query('create table wide (a int); insert into wide values (1)')))
  const all = { name: 'all', text: 'select * from wide' }
  // Both connections have it prepared.
  await db.transaction(async (tx) => Promise.all([tx.run(all), db.run(all)]))
  await operator.transaction((tx) => tx.query("alter table wide add b text default 'new'"))
  expect(await db.run(all)).toEqual([{ a: 1, b: 'new' }])
  await operator.transaction((tx) => tx.query("alter table wide add c text default 'newer'"))
  const rows = await db.transaction((tx) => tx.run(all), { retry: true })
  expect(rows).toEqual([{ a: 1, b: 'new', c: 'newer' }])
})

test('fault points stand around every statement, begin and commit included', async () => {
  const points: string[] = []
  const db = await open({ faults: (point) => void points.push(point) })
  points.length = 0
  await db.run(backend)
  await db.transaction((tx) => tx.run(backend))
  await db.transaction(() => Promise.reject(new Error('no'))).catch(() => undefined)
  const around = (name: string) => [`before ${name}`, `after ${name}`]
  expect(points).toEqual(['backend', 'begin', 'backend', 'commit', 'begin', 'rollback'].flatMap(around))
})

test('K-11 a server that goes down while its connections are being closed ends no process', async () => {
  // An 'error' that nobody listens to fails the whole run, whichever of these closings it comes from.
  for (let n = 0; n < 20; n++) {
    const db = await openDatabase({ connectionString, poolSize: 4 })
    const pids = await Promise.all([1, 2, 3, 4].map(() => backendOf(db)))
    const ended = operator.run(
      { name: 'terminate all', text: 'select pg_terminate_backend(pid) from unnest($1::int[]) as pid' },
      [pids],
    )
    await Promise.all([ended, db.close()])
  }
})
