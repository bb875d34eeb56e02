import { countStatements, testDatabase } from '@holdfast/testing/internal'
import { expect, onTestFinished, test } from 'vitest'
import type { Database } from '../kernel/database/database.js'
import { openDatabase } from '../kernel/database/open.js'
import { ensureQueue, forgetQueue, queueExists } from './ensure-queue.js'
import { installQueue } from './install/install.js'

async function eightPools(): Promise<Database[]> {
  const { connectionString } = await testDatabase({ empty: true })
  const pools = await Promise.all(Array.from({ length: 8 }, () => openDatabase({ connectionString, poolSize: 2 })))
  onTestFinished(async () => void (await Promise.all(pools.map((db) => db.close()))))
  const [first] = pools
  if (first) await installQueue(first)
  return pools
}

const queues = (db: Database | undefined) =>
  db?.run({ name: 'queues', text: 'select queue_name from pgmq.list_queues() order by 1' })

test('Q-03 eight clients make one queue at once', async () => {
  const pools = await eightPools()
  for (const queue of ['a', 'b', 'c']) await Promise.all(pools.map((db) => ensureQueue(db, queue)))
  expect(await queues(pools[0])).toEqual([{ queue_name: 'a' }, { queue_name: 'b' }, { queue_name: 'c' }])
})

test('Q-03 also where PGMQ does not lock, as before 1.6', async () => {
  const pools = await eightPools()
  await pools[0]?.transaction((tx) =>
    tx.query(
      "create or replace function pgmq.acquire_queue_lock(queue_name text) returns void language sql as 'select'",
    ),
  )
  for (const queue of ['a', 'b', 'c', 'd', 'e']) await Promise.all(pools.map((db) => ensureQueue(db, queue)))
  expect(await queues(pools[0])).toHaveLength(5)
})

test('Q-03 the database is asked once per process, until the queue is found to be missing', async () => {
  const { connectionString } = await testDatabase({ empty: true })
  const { faults, counts } = countStatements()
  const db = await openDatabase({ connectionString, faults })
  onTestFinished(() => db.close())
  await installQueue(db)
  await Promise.all([ensureQueue(db, 'a'), ensureQueue(db, 'a')])
  await ensureQueue(db, 'a')
  expect([counts.get('queue.exists'), counts.get('queue.create')]).toEqual([1, 1])

  await db.run({ name: 'drop', text: "select pgmq.drop_queue('a')" })
  forgetQueue(db, 'a')
  await ensureQueue(db, 'a')
  expect([counts.get('queue.exists'), counts.get('queue.create')]).toEqual([2, 2])
  expect(await queueExists(db, 'a')).toBe(true)
})

test('Q-03 a failure is not remembered', async () => {
  const { connectionString } = await testDatabase({ empty: true })
  const db = await openDatabase({ connectionString })
  onTestFinished(() => db.close())
  await expect(ensureQueue(db, 'a')).rejects.toMatchObject({ code: 'HF_QUEUE_UNAVAILABLE' })
  await installQueue(db)
  await ensureQueue(db, 'a')
  expect(await queueExists(db, 'a')).toBe(true)
})
