import { waitFor } from '@holdfast/testing/internal'
import { afterAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineProcess } from './define.js'
import { by, empty, openOperations } from './operations.fixture.js'

const { bus, processes, work, get, until, repairable } = await openOperations()
afterAll(() => bus.close())

test('P-16 complete ends a process with state overrides and a result, and does all that an end does', async () => {
  const { Payment, failing } = repairable('complete')
  failing.add('AAAA')
  const batchId = await bus.hf.batches.open('complete')
  const [started] = await bus.hf.startMany(Payment, [{ input: { iban: 'AAAA', when: new Date(5) } }], {
    batch: batchId,
  })
  const id = started?.id ?? ''
  await bus.hf.batches.seal(batchId)
  await work('complete')
  await until(Payment, id, 'WAITING_FOR_TSQ')
  expect(await bus.hf.batches.get(batchId)).toMatchObject({ status: 'IN_PROGRESS', inTroubleshooting: 1, total: 1 })
  // Recorded while it is in troubleshooting, and never met: in the state all the same.
  await bus.hf.process(Payment, id).respond('corrected', { iban: 'CCCC' })
  await bus.hf.process(Payment, id).complete(by, 'by hand', { state: { paidBy: 'hand', at: new Date(7) } })
  expect(await bus.hf.process(Payment, id).result()).toBe('by hand')
  const record = await get(Payment, id)
  expect(record).toMatchObject({ status: 'COMPLETED', error: null, dueAt: null, endedAt: expect.any(Date) })
  expect(record.state).toEqual({ iban: 'CCCC', when: new Date(5), paidBy: 'hand', at: new Date(7) })
  expect((await bus.hf.process(Payment, id).history()).at(-1)).toMatchObject({
    event: 'TSQ_COMPLETE_OVERRIDE',
    ...by,
    before: { status: 'WAITING_FOR_TSQ' },
    after: { status: 'COMPLETED', state: { paidBy: 'hand' }, result: 'by hand' },
  })
  await waitFor('the batch is closed', async () => (await bus.hf.batches.get(batchId)).status === 'COMPLETED')
  expect(await bus.hf.batches.get(batchId)).toMatchObject({ completed: 1, inTroubleshooting: 0 })
})

test('P-16 complete without options keeps the state, and notifies the parent', async () => {
  const Child = defineProcess('complete-child', 'Child', {
    state: z.object({ n: z.number() }),
    async execute(ctx): Promise<string> {
      await ctx.wait('never', () => false)
      return 'by itself'
    },
  })
  const Parent = defineProcess('complete-child', 'Parent', {
    state: empty,
    execute: (ctx) => ctx.child('child', Child, { n: 7 }),
  })
  bus.hf.register(Child)
  bus.hf.register(Parent)
  await work('complete-child')
  const parent = await bus.hf.start(Parent, {})
  const child = await waitFor('the child waits', async () => {
    const [found] = (await processes().list({ parent: parent.id, status: 'WAITING_FOR_ASYNC' })).items
    return found
  })
  await bus.hf.process(Child, child.id).complete(by, 'by hand')
  expect(await bus.hf.process(Parent, parent.id).result()).toBe('by hand')
  expect((await get(Child, child.id)).state).toEqual({ n: 7 })
})

test('P-16 complete is refused while a worker executes the process, and not once that worker is dead', async () => {
  const Long = defineProcess('complete-leased', 'Long', { state: empty, async execute() {} })
  bus.hf.register(Long)
  const { id } = await bus.hf.start(Long, {}, { immediate: false })
  // A worker has claimed it, and will never be heard of again.
  await bus.sql(
    `update holdfast.process
     set leased_at = holdfast.now(), leased_by = 'dead', lease_epoch = lease_epoch + 1, due_at = holdfast.now() + interval '30 s'
     where id = $1`,
    [id],
  )
  await expect(bus.hf.process(Long, id).complete(by)).rejects.toMatchObject({
    code: 'HF_WRONG_STATUS',
    details: { status: 'EXECUTING' },
  })
  await bus.moveClock(31_000)
  await bus.hf.process(Long, id).complete(by)
  expect(await get(Long, id)).toMatchObject({ status: 'COMPLETED', leasedBy: null, result: null })
})

test('P-16 complete takes a response that comes at the same moment, and never loses it', async () => {
  const Count = defineProcess('complete-race', 'Count', {
    state: z.object({ sum: z.number() }),
    responses: {
      add: {
        data: z.number(),
        apply: (state, n) => {
          state.sum += n
        },
      },
    },
    execute: async (ctx) => void (await ctx.wait('never', () => false)),
  })
  bus.hf.register(Count)
  const { id } = await bus.hf.start(Count, { sum: 0 })
  await Promise.all([
    ...Array.from({ length: 20 }, () => bus.hf.process(Count, id).respond('add', 1)),
    bus.hf.process(Count, id).complete(by, undefined, { state: { done: true } }),
  ])
  expect((await get(Count, id)).state).toEqual({ sum: 20, done: true })
})
