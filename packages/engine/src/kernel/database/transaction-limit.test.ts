import { startFaultProxy, testDatabase, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { openDatabase } from './open.js'
import type { DatabaseOptions } from './options.js'
import { isTransient, outcomeUnknown } from './transient.js'

const { connectionString } = await testDatabase({ empty: true })
const operator = await openDatabase({ connectionString })
await operator.transaction((tx) =>
  tx.query('create table account (id int primary key); insert into account values (1)'),
)

const one = { name: 'one', text: 'select 1 as one' }
const lock = { name: 'lock', text: 'select id from account where id = 1 for update' }
const lockNow = { name: 'lock now', text: 'select id from account where id = 1 for update nowait' }
const forever = () => new Promise<never>(() => undefined)

async function open(options: DatabaseOptions = {}) {
  const db = await openDatabase({ connectionString, ...options })
  onTestFinished(() => db.close())
  return db
}

const isFree = () =>
  operator.run(lockNow).then(
    () => true,
    () => false,
  )

async function statementsRunning(text: string): Promise<number> {
  const find = {
    name: 'find running',
    text: "select 1 from pg_stat_activity where query = $1 and state = 'active' and pid <> pg_backend_pid()",
  }
  return (await operator.run(find, [text])).length
}

test('K-23 a transaction whose user code hangs is rolled back at its limit, and its connection is free again', async () => {
  const db = await open({ poolSize: 1 })
  const late = db.transaction(
    async (tx) => {
      await tx.run(lock)
      await forever()
    },
    { userCode: { limitMs: 200, idleMs: 30_000 } },
  )
  const error = await late.catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ name: 'TransientError', code: 'TIMEOUT' })
  expect(outcomeUnknown(error)).toBe(false)
  await waitFor('the row is free', isFree)
  expect(await db.run(one)).toEqual([{ one: 1 }])
})

test('K-23 a statement of user code that hangs is cancelled on the server when the limit is reached', async () => {
  const db = await open()
  const nap = 'select pg_sleep(61)'
  const late = db.transaction((tx) => tx.query(nap), { userCode: { limitMs: 300, idleMs: 30_000 } })
  await waitFor('it sleeps', async () => (await statementsRunning(nap)) === 1)
  await expect(late).rejects.toMatchObject({ code: 'TIMEOUT' })
  await waitFor('nobody sleeps', async () => (await statementsRunning(nap)) === 0)
})

test('K-05 a statement that outlasts our own time limit is cancelled on the server', async () => {
  const db = await open({ statementTimeout: 300 })
  const nap = 'select pg_sleep(62)'
  const error = await db.run({ name: 'nap', text: nap }).catch((thrown: unknown) => thrown)
  expect({ again: isTransient(error), unknown: outcomeUnknown(error) }).toEqual({ again: true, unknown: true })
  await waitFor('nobody sleeps', async () => (await statementsRunning(nap)) === 0)
})

test('K-23 what user code does after its limit has no effect', async () => {
  const db = await open({ poolSize: 1 })
  let goOn: () => void = () => undefined
  const gate = new Promise<void>((resolve) => {
    goOn = resolve
  })
  let after: Promise<unknown> | undefined
  const late = db.transaction(
    async (tx) => {
      await gate
      after = tx.query('insert into account values (99)')
      await after
    },
    { userCode: { limitMs: 50, idleMs: 30_000 } },
  )
  await expect(late).rejects.toMatchObject({ code: 'TIMEOUT' })
  goOn()
  await waitFor('it has tried', async () => after !== undefined)
  await expect(after).rejects.toMatchObject({ code: 'HF_STOPPED' })
})

test('K-23 a signal ends a transaction with its own reason', async () => {
  const db = await open()
  const controller = new AbortController()
  const reason = new Error('the lease is lost')
  const running = db.transaction(
    async (tx) => {
      await tx.run(lock)
      controller.abort(reason)
      await forever()
    },
    { userCode: { limitMs: 30_000, idleMs: 30_000, signal: controller.signal } },
  )
  await expect(running).rejects.toBe(reason)
  await waitFor('the row is free', isFree)
})

test('K-23 the server ends the session of a worker that has gone silent, and the lock is free', async () => {
  // A hanging network is to the server what a frozen process is: it hears nothing, and no connection closes.
  const proxy = await startFaultProxy(connectionString)
  onTestFinished(() => proxy.close())
  const db = await openDatabase({ connectionString: proxy.connectionString })
  let held: () => void = () => undefined
  const holds = new Promise<void>((resolve) => {
    held = resolve
  })
  const frozen = db
    .transaction(
      async (tx) => {
        await tx.run(lock)
        held()
        await forever()
      },
      { userCode: { limitMs: 20_000, idleMs: 100 } },
    )
    .catch((thrown: unknown) => thrown)
  await holds
  proxy.hang(true)
  expect(await isFree()).toBe(false)
  await waitFor('the row is free', isFree)
  proxy.cut()
  await db.close()
  expect(await frozen).toBeInstanceOf(Error)
})

test('K-23 user code that uses no SQL for longer than the idle limit keeps its transaction while its process lives', async () => {
  const db = await open()
  const done = await db.transaction(
    async (tx) => {
      await tx.run(lock)
      const [own] = await tx.run<{ pid: number }>({ name: 'pid', text: 'select pg_backend_pid() as pid' })
      const age = {
        name: 'age',
        text: "select 1 from pg_stat_activity where pid = $1 and clock_timestamp() - xact_start > interval '2.5 s'",
      }
      await waitFor('it lasts longer than the limit', async () => (await operator.run(age, [own?.pid])).length === 1)
      return tx.run(one)
    },
    { userCode: { limitMs: 30_000, idleMs: 100 } },
  )
  expect(done).toEqual([{ one: 1 }])
})

test.each(['own pool', 'a user’s pool'])('K-23 user transactions never take all connections: %s', async (whose) => {
  const pool = new pg.Pool({ connectionString, max: 4 })
  onTestFinished(() => pool.end())
  const db = whose === 'own pool' ? await open({ poolSize: 4 }) : await openDatabase({ pool })
  if (whose !== 'own pool') onTestFinished(() => db.close())
  let begun = 0
  let finish: () => void = () => undefined
  const end = new Promise<void>((resolve) => {
    finish = resolve
  })
  const long = Array.from({ length: 6 }, () =>
    db.transaction(
      async () => {
        begun += 1
        await end
      },
      { userCode: { limitMs: 30_000, idleMs: 30_000 } },
    ),
  )
  await waitFor('two have begun', async () => begun === 2)
  expect(await Promise.all([db.run(one), db.run(one), db.run(one)])).toHaveLength(3)
  expect(begun).toBe(2)
  finish()
  await Promise.all(long)
  expect(begun).toBe(6)
})

test('K-23 closing takes bounded time: hanging transactions are rolled back, waiting ones refused', async () => {
  const db = await openDatabase({ connectionString, poolSize: 1 })
  const userCode = { limitMs: 600_000, idleMs: 600_000 }
  let held: () => void = () => undefined
  const holds = new Promise<void>((resolve) => {
    held = resolve
  })
  const hanging = db
    .transaction(
      async (tx) => {
        await tx.run(lock)
        held()
        await forever()
      },
      { userCode },
    )
    .catch((thrown: unknown) => thrown)
  await holds
  const waiting = db.transaction(forever, { userCode }).catch((thrown: unknown) => thrown)
  await db.close()
  expect(await hanging).toMatchObject({ code: 'HF_STOPPED' })
  expect(await waiting).toMatchObject({ code: 'HF_STOPPED' })
  await waitFor('the row is free', isFree)
})
