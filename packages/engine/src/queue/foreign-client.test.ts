import { testDatabase } from '@holdfast/testing/internal'
import { Pgmq } from 'pgmq-js'
import { afterAll, expect, test } from 'vitest'
import { openDatabase } from '../kernel/database/open.js'
import { createQueueClient } from './client.js'
import { ensureCommandQueue } from './command-queue.js'
import { installQueue } from './install/install.js'

// A client that knows nothing of us, on the same queues.

const { connectionString } = await testDatabase({ empty: true })
const db = await openDatabase({ connectionString, schema: 'pay' })
await installQueue(db)
const ours = createQueueClient(db)
const { hostname, port, username, password, pathname } = new URL(connectionString)
const theirs = await Pgmq.new(
  {
    host: decodeURIComponent(hostname),
    port: Number(port),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: pathname.slice(1),
    ssl: false,
  },
  { skipExtensionCreation: true },
)
afterAll(async () => {
  await theirs.close()
  await db.close()
})

test('Q-01 pgmq-js reads, hides, archives and deletes what we sent', async () => {
  const queue = ours.queueName('from_us')
  await ensureCommandQueue(db, queue)
  const ids = await ours.sendBatch('from_us', [{ n: 1 }, { n: 2 }, { n: 3 }])
  expect(await theirs.msg.readBatch(queue, 60, 2)).toMatchObject([
    { msgId: Number(ids[0]), readCount: 1, message: { n: 1 } },
    { msgId: Number(ids[1]), readCount: 1, message: { n: 2 } },
  ])
  expect(await theirs.msg.delete(queue, Number(ids[0]))).toBe(true)
  expect(await theirs.msg.archive(queue, Number(ids[1]))).toBe(true)
  expect(await theirs.msg.pop(queue)).toMatchObject({ message: { n: 3 } })
  expect(await ours.metrics('from_us')).toMatchObject({ length: 0, total: 3 })
})

test('Q-01 we read, hide, archive and delete what pgmq-js sent', async () => {
  const queue = ours.queueName('from_them')
  await theirs.queue.create(queue)
  expect(await ours.list()).toContainEqual(expect.objectContaining({ name: 'from_them', queue }))
  const first = await theirs.msg.send(queue, { n: 1 })
  const [second, third] = await theirs.msg.sendBatch(queue, [{ n: 2 }, { n: 3 }])
  await theirs.msg.send(queue, { n: 4 }, 3600)
  const read = await ours.read<{ n: number }>('from_them', { limit: 10 })
  expect(read.map(({ messageId, message }) => [Number(messageId), message.n])).toEqual([
    [first, 1],
    [second, 2],
    [third, 3],
  ])
  expect(await ours.delete('from_them', String(first))).toBe(true)
  expect(await ours.archive('from_them', [String(second), String(third)])).toEqual([String(second), String(third)])
  expect(await theirs.queue.getMetrics(queue)).toMatchObject({ queueLength: 1, totalMessages: 4 })
})

test('Q-01 pgmq-js lists and drops our queues', async () => {
  await ours.create('short_lived')
  const queue = ours.queueName('short_lived')
  expect(await theirs.queue.list()).toContainEqual(expect.objectContaining({ name: queue, isUnlogged: false }))
  await theirs.queue.drop(queue)
  expect(await ours.exists('short_lived')).toBe(false)
})
