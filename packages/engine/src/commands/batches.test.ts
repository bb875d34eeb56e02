import { randomUUID } from 'node:crypto'
import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BusinessError, PermanentError } from '../kernel/failure/failure-errors.js'
import type { BatchSummary } from './batches.js'
import { defineCommand } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'test' }
const items = (count: number) => Array.from({ length: count }, (_, data) => ({ data }))
const closed = (batchId: string) =>
  waitFor('the batch has closed', async () => {
    const batch = await bus.hf.batches.get(batchId)
    return batch.completedAt === null ? undefined : batch
  })
const summaries = (domain: string) => {
  const got: BatchSummary[] = []
  const Done = defineCommand(domain, 'Done')
  bus.hf.handle(Done, (summary) => void got.push(summary as BatchSummary))
  return { Done, got }
}
const closeBatches = () => bus.sql('select * from holdfast.close_batches(1000)')

test('C-12 a batch that was created with its items closes when all have ended, and calls back with its counts', async () => {
  const Do = defineCommand('whole', 'Do')
  const { Done, got } = summaries('whole')
  await bus.work(Do, () => null)
  const data = { owner: 'ann', due: new Date(0) }
  const batchId = await bus.hf.batches.create(Do, items(5), { name: 'night run', data, onComplete: Done })
  expect(await closed(batchId)).toMatchObject({
    name: 'night run',
    data,
    status: 'COMPLETED',
    sealed: true,
    total: 5,
    completed: 5,
    failed: 0,
    cancelled: 0,
    inTroubleshooting: 0,
  })
  await waitFor('it called back', () => got.length > 0)
  const counts = { total: 5, completed: 5, failed: 0, cancelled: 0 }
  expect(got).toEqual([{ batchId, name: 'night run', data, status: 'COMPLETED', ...counts }])
  expect(await bus.events(batchId)).toEqual(['BATCH_STARTED', 'BATCH_COMPLETED'])
})

test('C-12 a batch accepts items until it is sealed, also when all its items have ended', async () => {
  const Do = defineCommand('open', 'Do')
  await bus.work(Do, () => null)
  const batchId = await bus.hf.batches.open('open', { name: 'trickle' })
  expect(await bus.hf.batches.get(batchId)).toMatchObject({ status: 'PENDING', sealed: false, total: 0 })
  await (await bus.hf.send(Do, 1, { batch: batchId })).result()
  await waitFor('it is under way', async () => (await bus.hf.batches.get(batchId)).status === 'IN_PROGRESS')
  await bus.hf.sendMany(Do, items(3), { batch: batchId })
  await waitFor('all have ended', async () => (await bus.hf.batches.get(batchId)).completed === 4)
  await closeBatches()
  expect(await bus.hf.batches.get(batchId)).toMatchObject({ status: 'IN_PROGRESS', completedAt: null, total: 4 })
  await bus.hf.batches.seal(batchId)
  expect(await closed(batchId)).toMatchObject({ status: 'COMPLETED', total: 4, completed: 4 })
  await bus.hf.batches.seal(batchId)
  expect(await bus.events(batchId)).toEqual(['BATCH_STARTED', 'BATCH_COMPLETED'])
})

test('C-12 an empty batch closes when it is sealed, and calls back', async () => {
  const { Done, got } = summaries('empty')
  await bus.hf.run({ domains: ['empty'], poll: '20ms' })
  const batchId = await bus.hf.batches.open('empty', { onComplete: Done })
  await bus.hf.batches.seal(batchId)
  expect(await closed(batchId)).toMatchObject({ status: 'COMPLETED', total: 0 })
  await waitFor('it called back', () => got.length === 1)
})

test('C-12 failures and cancelled items are counted, and an item in troubleshooting keeps the batch open', async () => {
  const Do = defineCommand('mixed', 'Do')
  const { Done, got } = summaries('mixed')
  const batchId = await bus.hf.batches.create(Do, items(5), { onComplete: Done })
  const [called] = (await bus.hf.commands.list({ batch: batchId })).items
  await bus.hf.command(Do, called?.id ?? '').cancel(by)
  await bus.work(Do, (n) => {
    if (n === 0) throw new BusinessError('no')
    if (n === 1 || n === 2) throw new PermanentError('broken')
  })
  await waitFor('two are in troubleshooting', async () => (await bus.hf.batches.get(batchId)).inTroubleshooting === 2)
  await waitFor('the rest has ended', async () => {
    const { completed, failed, cancelled } = await bus.hf.batches.get(batchId)
    return completed + failed + cancelled === 3
  })
  await closeBatches()
  expect(await bus.hf.batches.get(batchId)).toMatchObject({
    status: 'IN_PROGRESS',
    total: 5,
    completed: 1,
    failed: 1,
    cancelled: 1,
    inTroubleshooting: 2,
  })
  const [first, second] = (await bus.hf.trouble.list({ model: 'commands', domain: 'mixed' })).items
  await bus.hf.command(Do, first?.id ?? '').complete(by)
  await closeBatches()
  expect(await bus.hf.batches.get(batchId)).toMatchObject({ completedAt: null, completed: 2, inTroubleshooting: 1 })
  expect(got).toEqual([])
  await bus.hf.command(Do, second?.id ?? '').cancel(by)
  const counts = { total: 5, completed: 2, failed: 1, cancelled: 2 }
  expect(await closed(batchId)).toMatchObject({ status: 'COMPLETED_WITH_FAILURES', ...counts })
  await waitFor('it called back', () => got.length === 1)
  expect(got[0]).toMatchObject({ batchId, status: 'COMPLETED_WITH_FAILURES', ...counts })
})

test('C-12 a batch whose item is retried by an operator closes when that has ended', async () => {
  const Do = defineCommand('mended', 'Do')
  let broken = true
  await bus.work(Do, () => {
    if (broken) throw new PermanentError('broken')
  })
  const batchId = await bus.hf.batches.create(Do, items(1))
  await waitFor('it is in troubleshooting', async () => (await bus.hf.batches.get(batchId)).inTroubleshooting === 1)
  broken = false
  const [item] = (await bus.hf.trouble.list({ model: 'commands', domain: 'mended' })).items
  await bus.hf.command(Do, item?.id ?? '').retry(by)
  expect(await closed(batchId)).toMatchObject({ status: 'COMPLETED', total: 1, completed: 1, failed: 0 })
})

test('C-12 two last finishers in open transactions, each of which sees the other unfinished: the batch closes, once', async () => {
  const Do = defineCommand('two-last', 'Do')
  const { Done } = summaries('two-last')
  const batchId = await bus.hf.batches.create(Do, items(2), { onComplete: Done })
  const received = await bus.sql<{ items: { id: string; epoch: number; commandId: string }[] }>(
    `select items from holdfast.receive_commands('two-last__commands', 'two-last', '{Do}', '{null}', 'test', 2, 60000, false, 1000)`,
  )
  const finish = async (item: { id: string; epoch: number; commandId: string } | undefined) => {
    const client = new pg.Client({ connectionString: bus.connectionString })
    await client.connect()
    await client.query('begin')
    const write = {
      msg_id: item?.id,
      read_ct: item?.epoch,
      command_id: item?.commandId,
      outcome: 'COMPLETED',
      token: randomUUID(),
    }
    const { rows } = await client.query(
      `select holdfast.finish_commands('two-last__commands', 'two-last', $1) as answers`,
      [JSON.stringify([write])],
    )
    expect(rows).toEqual([{ answers: [0] }])
    return client
  }
  // A worker of another domain closes batches all the while.
  const one = await finish(received[0]?.items[0])
  const two = await finish(received[0]?.items[1])
  await closeBatches()
  await one.query('commit')
  await closeBatches()
  expect((await bus.hf.batches.get(batchId)).completedAt).toBeNull()
  await two.query('commit')
  await Promise.all([one.end(), two.end()])
  await closeBatches()
  expect(await closed(batchId)).toMatchObject({ total: 2, completed: 2 })
  const callbacks = (await bus.hf.commands.list({ domain: 'two-last', type: 'Done' })).items
  expect(callbacks).toHaveLength(1)
})

test('C-12 many batches finished by several workers at once close and call back exactly once each', async () => {
  const Do = defineCommand('storm', 'Do')
  const { Done, got } = summaries('storm')
  const others = await Promise.all(
    [1, 2].map(async () => {
      const other = await openTestBus({ connectionString: bus.connectionString })
      await other.work(Do, () => null, { concurrency: 50 })
      return other
    }),
  )
  await bus.work(Do, () => null, { concurrency: 50 })
  const ids: string[] = []
  for (let round = 0; round < 15; round += 1) {
    ids.push(await bus.hf.batches.create(Do, items(200), { onComplete: Done }))
  }
  for (const id of ids) expect(await closed(id)).toMatchObject({ status: 'COMPLETED', total: 200, completed: 200 })
  await waitFor('all called back', () => got.length >= ids.length)
  expect(got.map(({ batchId }) => batchId).toSorted()).toEqual(ids.toSorted())
  expect((await bus.hf.commands.list({ domain: 'storm', type: 'Done' })).items).toHaveLength(ids.length)
  await waitFor('no tally is left', async () => {
    const tallies = await bus.sql('select 1 from holdfast.batch_tally where batch_id = any ($1)', [ids])
    return tallies.length === 0
  })
  await Promise.all(others.map((other) => other.close()))
}, 90_000)

test('C-12 finishing a command locks no row of its batch, so it never waits for a transaction that closes or counts the batch', async () => {
  const Do = defineCommand('hot', 'Do')
  const batchId = await bus.hf.batches.create(Do, items(1))
  const client = new pg.Client({ connectionString: bus.connectionString })
  await client.connect()
  await client.query('begin')
  await client.query('select from holdfast.batch where batch_id = $1 for no key update', [batchId])
  await bus.work(Do, () => 'done')
  const [item] = (await bus.hf.commands.list({ batch: batchId })).items
  expect(await bus.hf.command(Do, item?.id ?? '').result()).toBe('done')
  await client.query('commit')
  await client.end()
  await closed(batchId)
})

test('C-12 a sealed or unknown batch takes no commands, and is named', async () => {
  const Do = defineCommand('shut', 'Do')
  const batchId = await bus.hf.batches.create(Do, items(1))
  const expected = { code: 'HF_BATCH_CLOSED', message: expect.stringContaining(batchId) }
  await expect(bus.hf.send(Do, 2, { batch: batchId })).rejects.toMatchObject(expected)
  await expect(bus.hf.sendMany(Do, items(2), { batch: batchId })).rejects.toMatchObject(expected)
  await expect(bus.hf.send(Do, 2, { batch: randomUUID() })).rejects.toMatchObject({ code: 'HF_BATCH_CLOSED' })
  expect((await bus.hf.batches.get(batchId)).total).toBe(1)
  await expect(bus.hf.batches.seal(randomUUID())).rejects.toMatchObject({ code: 'HF_UNKNOWN_BATCH' })
  await expect(bus.hf.batches.get(randomUUID())).rejects.toMatchObject({ code: 'HF_UNKNOWN_BATCH' })
  await expect(bus.hf.batches.open('shut', { id: batchId })).rejects.toMatchObject({ code: 'HF_DUPLICATE_BATCH' })
})

test('C-12 a batch with a refused command is not made at all', async () => {
  const Do = defineCommand('refused', 'Do')
  const { id: taken } = await bus.hf.send(Do, 0)
  const batchId = randomUUID()
  await expect(bus.hf.batches.create(Do, [{ data: 1 }, { data: 2, id: taken }], { id: batchId })).rejects.toMatchObject(
    {
      code: 'HF_DUPLICATE_COMMAND',
    },
  )
  await expect(bus.hf.batches.create(Do, [], { id: batchId })).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  await expect(bus.hf.batches.get(batchId)).rejects.toMatchObject({ code: 'HF_UNKNOWN_BATCH' })
  expect((await bus.hf.commands.list({ domain: 'refused' })).items).toHaveLength(1)
})

test('C-12 batches are listed by domain and status, newest first', async () => {
  const first = await bus.hf.batches.open('listed')
  const second = await bus.hf.batches.open('listed')
  const ids = (await bus.hf.batches.list({ domain: 'listed', status: 'PENDING' })).map(({ batchId }) => batchId)
  expect(ids).toEqual([second, first])
  expect(await bus.hf.batches.list({ domain: 'listed', status: 'COMPLETED' })).toEqual([])
  expect(await bus.hf.batches.list({ domain: 'listed', limit: 1 })).toHaveLength(1)
})

test('C-12 a batch closes and reports it when the queue of its callback is gone', async () => {
  const Do = defineCommand('deaf', 'Do')
  const Gone = defineCommand('gone', 'Done')
  const batchId = await bus.hf.batches.create(Do, items(1), { onComplete: Gone })
  await bus.hf.queues.drop('gone__commands')
  await bus.work(Do, () => null)
  expect(await closed(batchId)).toMatchObject({ status: 'COMPLETED' })
  expect(await bus.events(batchId)).toContain('REPLY_FAILED')
})

test('C-12 sealing waits for a sender that is adding to the batch, and counts what it adds', async () => {
  const Do = defineCommand('sealed-late', 'Do')
  const batchId = await bus.hf.batches.open('sealed-late', { name: 'late' })
  await bus.hf.send(Do, 0, { batch: batchId })
  const sender = new pg.Client({ connectionString: bus.connectionString })
  await sender.connect()
  try {
    await sender.query('begin')
    await bus.hf.send(Do, 1, { batch: batchId, transaction: sender })
    const sealing = bus.hf.batches.seal(batchId)
    const waits = waitFor('the seal waits for the sender', async () => {
      const waiting = await bus.sql(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%sealed%'`,
      )
      return waiting.length > 0
    })
    expect(await Promise.race([sealing.then(() => 'sealed'), waits.then(() => 'waits')])).toBe('waits')
    await sender.query('commit')
    await sealing
  } finally {
    await sender.end()
  }
  await bus.work(Do, () => null)
  expect(await closed(batchId)).toMatchObject({ total: 2, completed: 2 })
})
