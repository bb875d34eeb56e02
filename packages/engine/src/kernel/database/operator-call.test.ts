import { failsWithin, startFaultProxy, testDatabase } from '@holdfast/testing/internal'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import type { Executor } from './executor.js'
import { openDatabase } from './open.js'
import { operatorCall, operatorCallForMany } from './operator-call.js'

const { connectionString } = await testDatabase({ empty: true })
const db = await openDatabase({ connectionString })
await db.transaction((tx) => tx.query('create table item (id int primary key, done boolean not null default false)'))
beforeEach(async () => {
  await db.transaction((tx) => tx.query('truncate item; insert into item (id) select generate_series(1, 8)'))
})

const finish = {
  name: 'finish',
  text: 'update item set done = true where id = any ($1::int[]) and not done returning id',
}
const finishing = (ids: readonly number[]) => (tx: Executor) => tx.run<{ id: number }>(finish, [ids])
const doneIds = async () => {
  const rows = await db.run<{ id: number }>({ name: 'done', text: 'select id from item where done order by id' })
  return rows.map(({ id }) => id)
}

/** Holds a row until told otherwise. */
async function holdRow(id: number): Promise<() => Promise<void>> {
  let letGo: () => void = () => undefined
  const end = new Promise<void>((resolve) => {
    letGo = resolve
  })
  let locked: () => void = () => undefined
  const holds = new Promise<void>((resolve) => {
    locked = resolve
  })
  const holding = db.transaction(async (tx) => {
    await tx.query('select from item where id = $1 for update', [id])
    locked()
    await end
  })
  await holds
  return async () => {
    letGo()
    await holding
  }
}

test('K-23 an operator’s call is one transaction', async () => {
  expect(await operatorCall(db, 'finish', finishing([1, 2]))).toEqual([{ id: 1 }, { id: 2 }])
  expect(await doneIds()).toEqual([1, 2])
})

test('K-23 an operator’s call on a locked row is refused with HF_BUSY within 5 s and never takes effect', async () => {
  const letGo = await holdRow(1)
  expect(await failsWithin(5_000, operatorCall(db, 'finish', finishing([1])))).toMatchObject({ code: 'HF_BUSY' })
  await letGo()
  // Whoever waited for the row has it before this.
  await db.transaction((tx) => tx.query('select from item where id = 1 for update'))
  expect(await doneIds()).toEqual([])
})

test('K-23 of many items only the locked ones are refused', async () => {
  const letGo = await holdRow(3)
  const { answers, busy } = await operatorCallForMany(db, 'finish', [1, 2, 3, 4, 5, 6, 7, 8], (tx, ids) =>
    finishing(ids)(tx),
  )
  expect(answers.map(({ id }) => id).toSorted((a, b) => a - b)).toEqual([1, 2, 4, 5, 6, 7, 8])
  expect(busy).toEqual([3])
  await letGo()
  expect(await doneIds()).toEqual([1, 2, 4, 5, 6, 7, 8])
})

test('K-23 an operator’s call ends within 5 s while no connection is free, and does not take effect later', async () => {
  const single = await openDatabase({ connectionString, poolSize: 1 })
  onTestFinished(() => single.close())
  let letGo: () => void = () => undefined
  const end = new Promise<void>((resolve) => {
    letGo = resolve
  })
  const long = single.transaction(() => end)
  expect(await failsWithin(6_000, operatorCall(single, 'finish', finishing([1])))).toMatchObject({ code: 'HF_BUSY' })
  letGo()
  await long
  await single.run({ name: 'one', text: 'select 1' })
  expect(await doneIds()).toEqual([])
})

test('K-23 an operator’s call survives a lost connection, and takes effect once', async () => {
  const proxy = await startFaultProxy(connectionString)
  onTestFinished(() => proxy.close())
  const far = await openDatabase({ connectionString: proxy.connectionString })
  onTestFinished(() => far.close())
  let attempts = 0
  const answer = await operatorCall(far, 'finish', async (tx) => {
    attempts += 1
    if (attempts === 1) proxy.cut()
    return finishing([1])(tx)
  })
  expect(answer).toEqual([{ id: 1 }])
  expect(attempts).toBe(2)
})

test('K-23 an operator’s call says so when it may have taken effect', async () => {
  const proxy = await startFaultProxy(connectionString)
  onTestFinished(() => proxy.close())
  const far = await openDatabase({ connectionString: proxy.connectionString })
  onTestFinished(() => far.close())
  const error = await failsWithin(
    6_000,
    operatorCall(far, 'finish', async (tx) => {
      const rows = await finishing([1])(tx)
      void proxy.swallowAnswerTo('commit')
      return rows
    }),
  )
  expect(error).toMatchObject({ code: 'HF_OUTCOME_UNKNOWN' })
  expect(await doneIds()).toEqual([1])
})

test('K-23 an operator’s call on an unreachable database says within 5 s that nothing was changed', async () => {
  const proxy = await startFaultProxy(connectionString)
  onTestFinished(() => proxy.close())
  const far = await openDatabase({ connectionString: proxy.connectionString })
  onTestFinished(() => far.close())
  proxy.refuse(true)
  proxy.cut()
  expect(await failsWithin(6_000, operatorCall(far, 'finish', finishing([1])))).toMatchObject({
    code: 'HF_DATABASE_UNAVAILABLE',
  })
})
