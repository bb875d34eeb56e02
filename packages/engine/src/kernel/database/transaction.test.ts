import { startFaultProxy, testDatabase } from '@holdfast/testing/internal'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { HoldfastError } from '../errors.js'
import { openDatabase } from './open.js'
import type { Transaction } from './transaction.js'
import { isTransient, outcomeUnknown } from './transient.js'

const { connectionString } = await testDatabase({ empty: true })
const db = await openDatabase({ connectionString })
await db.transaction(async (tx) => {
  await tx.query('create table account (id int primary key, balance int not null)')
  await tx.query('create table child (account int references account deferrable initially deferred)')
})

const insert = { name: 'insert', text: 'insert into account values ($1, $2)' }
const add = { name: 'add', text: 'update account set balance = balance + $2 where id = $1' }
const read = { name: 'read', text: 'select id, balance from account order by id' }
const suicide = { name: 'suicide', text: 'select pg_terminate_backend(pg_backend_pid())' }

beforeEach(() => db.transaction((tx) => tx.query('truncate account, child')).then(() => undefined))

test('what returns is committed, what throws is rolled back', async () => {
  const result = await db.transaction(async (tx) => {
    await tx.run(insert, [1, 10])
    return 'kept'
  })
  await expect(
    db.transaction(async (tx) => {
      await tx.run(insert, [2, 10])
      throw new Error('no')
    }),
  ).rejects.toThrow('no')
  expect(result).toBe('kept')
  expect(await db.run(read)).toEqual([{ id: 1, balance: 10 }])
})

test('a swallowed error of a statement is not taken for a commit', async () => {
  const sloppy = db.transaction(async (tx) => {
    await tx.run(insert, [1, 10])
    await tx.run(insert, [1, 20]).catch(() => undefined)
  })
  await expect(sloppy).rejects.toMatchObject({ code: 'HF_TRANSACTION_FAILED' })
  expect(await db.run(read)).toEqual([])
})

test('a transaction cannot be used after its end', async () => {
  const escaped: Transaction[] = []
  await db.transaction(async (tx) => void escaped.push(tx))
  await expect(escaped[0]?.run(insert, [1, 10])).rejects.toMatchObject({ code: 'HF_STOPPED' })
  expect(await db.run(read)).toEqual([])
})

test('it runs at read committed, whatever the database defaults to', async () => {
  const strict = await openDatabase({
    connectionString: `${connectionString}?options=-c%20default_transaction_isolation%3Dserializable`,
  })
  onTestFinished(() => strict.close())
  const level = { name: 'level', text: "select current_setting('transaction_isolation') as level" }
  expect(await strict.run(level)).toEqual([{ level: 'serializable' }])
  expect(await strict.transaction((tx) => tx.run(level))).toEqual([{ level: 'read committed' }])
})

test('K-11 a deadlock is retried as a whole when asked', async () => {
  await db.transaction(async (tx) => {
    await tx.run(insert, [1, 0])
    await tx.run(insert, [2, 0])
  })
  let attempts = 0
  let arrived = 0
  let bothHold: () => void = () => undefined
  const meeting = new Promise<void>((resolve) => {
    bothHold = resolve
  })
  const transfer = (from: number, to: number) =>
    db.transaction(
      async (tx) => {
        attempts += 1
        await tx.run(add, [from, -1])
        arrived += 1
        if (arrived === 2) bothHold()
        await meeting
        await tx.run(add, [to, 1])
      },
      { retry: true },
    )
  await Promise.all([transfer(1, 2), transfer(2, 1)])
  expect(attempts).toBe(3)
  expect(await db.run(read)).toEqual([
    { id: 1, balance: 0 },
    { id: 2, balance: 0 },
  ])
})

test('K-11 a connection lost before the commit is retried when asked, and known not to be applied when not', async () => {
  let attempts = 0
  const work = async (tx: Transaction) => {
    attempts += 1
    await tx.run(insert, [1, 10])
    if (attempts % 2 === 1) await tx.run(suicide)
    await tx.run(add, [1, 5])
  }
  const error = await db.transaction(work).catch((thrown: unknown) => thrown)
  expect({ again: isTransient(error), unknown: outcomeUnknown(error) }).toEqual({ again: true, unknown: false })
  expect(await db.run(read)).toEqual([])

  attempts = 0
  await db.transaction(work, { retry: true })
  expect(attempts).toBe(2)
  expect(await db.run(read)).toEqual([{ id: 1, balance: 15 }])
})

test('K-05 a commit whose answer is lost has an unknown outcome and is not retried', async () => {
  const proxy = await startFaultProxy(connectionString)
  onTestFinished(() => proxy.close())
  const far = await openDatabase({ connectionString: proxy.connectionString })
  onTestFinished(() => far.close())
  let attempts = 0
  const error = await far
    .transaction(
      async (tx) => {
        attempts += 1
        await tx.run(insert, [1, 10])
        void proxy.swallowAnswerTo('commit')
      },
      { retry: true },
    )
    .catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: 'HF_OUTCOME_UNKNOWN' })
  expect({ again: isTransient(error), unknown: outcomeUnknown(error) }).toEqual({ again: true, unknown: true })
  expect(attempts).toBe(1)
  expect(await db.run(read)).toEqual([{ id: 1, balance: 10 }])
})

test('a constraint that is checked at the commit fails it for certain', async () => {
  const orphan = db.transaction((tx) => tx.query('insert into child values (99)'))
  const error = await orphan.catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: '23503' })
  expect(outcomeUnknown(error)).toBe(false)
})

test('whatever error the work throws, its connection comes back clean', async () => {
  const single = await openDatabase({ connectionString, poolSize: 1 })
  onTestFinished(() => single.close())
  const foreign = new HoldfastError('HF_OUTCOME_UNKNOWN', { operation: 'somebody else’s commit', problem: 'p' })
  const attempt = single.transaction(async (tx) => {
    await tx.run(insert, [1, 10])
    throw foreign
  })
  await expect(attempt).rejects.toBe(foreign)
  expect(await single.run(read)).toEqual([])
})
