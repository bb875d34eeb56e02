import { randomUUID } from 'node:crypto'
import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../commands/index.js'
import { BusinessError, PermanentError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'ticket 7' }

function inBatch(domain: string) {
  const Pay = defineProcess(domain, 'Pay', {
    state: z.object({ how: z.enum(['well', 'declined', 'broken']) }),
    async execute(_, { how }) {
      if (how === 'declined') throw new BusinessError('declined')
      if (how === 'broken') throw new PermanentError('broken')
    },
  })
  bus.hf.register(Pay)
  return Pay
}
const closed = (batchId: string) =>
  waitFor('the batch is closed', async () => {
    const batch = await bus.hf.batches.get(batchId)
    return batch.completedAt ? batch : undefined
  })

test('P-21, C-12 a batch of processes has its progress, stays open for items in troubleshooting, and closes once', async () => {
  const Pay = inBatch('batch')
  const Done = defineCommand('batch', 'Done')
  const summaries: unknown[] = []
  const batchId = await bus.hf.batches.open('batch', { name: 'salaries', data: { month: 5 }, onComplete: Done })
  const hows = ['well', 'well', 'declined', 'broken', 'broken'] as const
  const started = await bus.hf.startMany(
    Pay,
    hows.map((how) => ({ input: { how } })),
    { batch: batchId },
  )
  await bus.hf.batches.seal(batchId)
  expect(await bus.hf.batches.get(batchId)).toMatchObject({ total: 5, completed: 0, sealed: true })
  await bus.work(Done, (summary) => void summaries.push(summary))
  await waitFor('two are in troubleshooting', async () => (await bus.hf.batches.get(batchId)).inTroubleshooting === 2)
  await waitFor('the others have ended', async () => {
    const { completed, failed } = await bus.hf.batches.get(batchId)
    return completed === 2 && failed === 1
  })
  expect(await bus.hf.batches.get(batchId)).toMatchObject({ status: 'IN_PROGRESS', completedAt: null })
  const [first = '', second = ''] = started.slice(3).map(({ id }) => id)
  await bus.hf.process(Pay, first).cancel(by, { compensate: false })
  await bus.hf.process(Pay, second).complete(by)
  expect(await closed(batchId)).toMatchObject({
    status: 'COMPLETED_WITH_FAILURES',
    total: 5,
    completed: 3,
    failed: 1,
    cancelled: 1,
    inTroubleshooting: 0,
  })
  await waitFor('the callback came', () => summaries.length > 0)
  expect(summaries).toEqual([
    expect.objectContaining({ batchId, name: 'salaries', data: { month: 5 }, total: 5, completed: 3, failed: 1 }),
  ])
  expect((await bus.hf.processes.list({ batch: batchId, status: 'COMPLETED' })).items.length).toBe(3)
})

test('P-21, C-12 commands and processes share a batch, also under one id', async () => {
  const Pay = inBatch('mixed')
  const Book = defineCommand('mixed', 'Book')
  const batchId = await bus.hf.batches.open('mixed')
  const id = randomUUID()
  await bus.hf.send(Book, 1, { id, batch: batchId })
  expect(await (await bus.hf.start(Pay, { how: 'well' }, { id, batch: batchId })).get()).toMatchObject({
    status: 'COMPLETED',
  })
  await bus.hf.batches.seal(batchId)
  const early = await bus.hf.batches.get(batchId)
  expect(early).toMatchObject({ total: 2, completed: 1, completedAt: null })
  await bus.work(Book, () => 'booked')
  expect(await closed(batchId)).toMatchObject({ status: 'COMPLETED', total: 2, completed: 2 })
})

test('P-21, C-12 a batch takes no process once it is sealed, and none of a call that has one refused', async () => {
  const Pay = inBatch('sealed')
  const batchId = await bus.hf.batches.open('sealed')
  await bus.hf.batches.seal(batchId)
  await expect(bus.hf.start(Pay, { how: 'well' }, { batch: batchId })).rejects.toMatchObject({
    code: 'HF_BATCH_CLOSED',
  })
  const open = await bus.hf.batches.open('sealed')
  const two = [
    { input: { how: 'well' }, batch: open },
    { input: { how: 'well' }, batch: batchId },
  ] as const
  await expect(bus.hf.startMany(Pay, two)).rejects.toMatchObject({ code: 'HF_BATCH_CLOSED' })
  expect((await bus.hf.processes.list({ domain: 'sealed' })).items).toEqual([])
  expect((await bus.hf.batches.get(open)).total).toBe(0)
})

test('P-21, C-12 an undone process counts as failed, one that runs in its starter counts at once', async () => {
  const Pay = inBatch('undone')
  const batchId = await bus.hf.batches.open('undone')
  await bus.hf.start(Pay, { how: 'declined' }, { batch: batchId })
  await bus.hf.start(Pay, { how: 'well' }, { batch: batchId })
  await bus.hf.batches.seal(batchId)
  await bus.hf.run({ domains: ['undone'], poll: '20ms' })
  expect(await closed(batchId)).toMatchObject({ status: 'COMPLETED_WITH_FAILURES', completed: 1, failed: 1 })
})
