import { waitFor } from '@holdfast/testing/internal'
import { afterAll, expect, test } from 'vitest'
import { defineProcess } from './define.js'
import { by, empty, openOperations } from './operations.fixture.js'

const { bus, processes, work, get, until, events, repairable } = await openOperations()
afterAll(() => bus.close())

test('P-16 cancel ends a process in troubleshooting, with or without undoing what it did', async () => {
  const { Payment, failing, undone } = repairable('cancel')
  failing.add('AAAA')
  const plain = await bus.hf.start(Payment, { iban: 'AAAA' })
  const careful = await bus.hf.start(Payment, { iban: 'AAAA' })
  await bus.hf.process(Payment, plain.id).cancel(by, { compensate: false })
  expect(await bus.hf.trouble.count({ model: 'processes', domain: 'cancel' })).toBe(1)
  expect(await get(Payment, plain.id)).toMatchObject({ status: 'PENDING', cancelling: true, error: null })
  await expect(bus.hf.process(Payment, plain.id).retry(by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
  await bus.hf.process(Payment, careful.id).cancel(by, { compensate: true })
  await work('cancel')
  await until(Payment, plain.id, 'CANCELLED')
  await until(Payment, careful.id, 'CANCELLED')
  expect(undone).toEqual(['reserve'])
  expect(await events(Payment, careful.id)).toEqual(['PROCESS_CREATED', 'TSQ_CANCEL', 'COMPENSATION_SUCCESS'])
  await expect(bus.hf.process(Payment, careful.id).result()).rejects.toMatchObject({
    code: 'HF_NOT_COMPLETED',
    details: { status: 'CANCELLED' },
  })
})

test('P-16 a process that waits is cancelled at once; the audit does not speak of troubleshooting', async () => {
  const Waits = defineProcess('cancel-waiting', 'Waits', {
    state: empty,
    execute: async (ctx) => void (await ctx.wait('never', () => false)),
  })
  bus.hf.register(Waits)
  await work('cancel-waiting')
  const { id, status } = await (await bus.hf.start(Waits, {})).get()
  expect(status).toBe('WAITING_FOR_ASYNC')
  await bus.hf.process(Waits, id).cancel(by, { compensate: false })
  await until(Waits, id, 'CANCELLED')
  expect(await events(Waits, id)).toEqual(['PROCESS_CREATED', 'CANCEL_REQUESTED'])
  await expect(bus.hf.process(Waits, id).cancel(by, { compensate: false })).rejects.toMatchObject({
    code: 'HF_WRONG_STATUS',
    message: expect.stringContaining(`Waits ${id} cannot be cancelled: it is CANCELLED`),
  })
})

test('P-16 a process that never pauses and never ends shows as long-running, and can be cancelled', async () => {
  let aborted = false
  const Hangs = defineProcess('hangs', 'Hangs', {
    state: empty,
    async execute(ctx) {
      ctx.signal.addEventListener('abort', () => {
        aborted = true
      })
      await new Promise(() => undefined)
    },
  })
  bus.hf.register(Hangs)
  const worker = await work('hangs')
  const { id } = await bus.hf.start(Hangs, {}, { immediate: false })
  await until(Hangs, id, 'EXECUTING')
  await bus.moveClock(5_000)
  const [found] = (await processes().list({ domain: 'hangs', status: 'EXECUTING', longerThan: '4s' })).items
  expect(found).toMatchObject({ id, leasedBy: worker.name, executingSince: expect.any(Date) })
  expect((await processes().list({ domain: 'hangs', longerThan: '1h' })).items).toEqual([])
  await bus.hf.process(Hangs, id).cancel(by, { compensate: false })
  await until(Hangs, id, 'CANCELLED')
  expect(aborted).toBe(true)
})

test('P-16, P-18 a process whose code no longer fits is cancelled without undoing', async () => {
  const domain = 'misfit-cancel'
  const First = defineProcess(domain, 'P', {
    state: empty,
    async execute(ctx) {
      await ctx.step('one', () => 1)
      await ctx.wait('never', () => false)
    },
  })
  const { id } = await bus.hf.start(First, {})
  const Changed = defineProcess(domain, 'P', {
    state: empty,
    mismatchGrace: '1ms',
    execute: async (ctx) => void (await ctx.step('two', () => 2)),
  })
  bus.hf.register(Changed)
  await work(domain)
  await bus.hf.process(Changed, id).resume(by)
  await waitFor('it is found not to fit', async () => {
    await bus.moveClock(6_000)
    return (await get(Changed, id)).status === 'WAITING_FOR_TSQ'
  })
  expect((await get(Changed, id)).error?.code).toBe('NON_DETERMINISM')
  await bus.hf.process(Changed, id).cancel(by, { compensate: false })
  await until(Changed, id, 'CANCELLED')
})

test('P-16 U-04 an accepted cancel with compensation stands: no complete and no plain cancel overrides it', async () => {
  const { Payment, undone, failing } = repairable('cancel-stands')
  failing.add('AAAA')
  const { id } = await bus.hf.start(Payment, { iban: 'AAAA' })
  await until(Payment, id, 'WAITING_FOR_TSQ')
  const process = bus.hf.process(Payment, id)
  // No worker runs yet: it is accepted, and not carried out.
  await process.cancel(by)
  await expect(process.complete(by, 'by hand')).rejects.toMatchObject({ code: 'HF_BEING_CANCELLED', status: 409 })
  await expect(process.cancel(by, { compensate: false })).rejects.toMatchObject({ code: 'HF_BEING_CANCELLED' })
  await process.cancel(by)
  await work('cancel-stands')
  await until(Payment, id, 'CANCELLED')
  expect(undone).toEqual(['reserve'])
})
