import { countStatements, openTestBus } from '@holdfast/testing/internal'
import { afterAll, expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../commands/define.js'
import { createCodec } from '../kernel/codec/codec.js'
import { newId } from '../kernel/ids/id.js'
import type { Why } from '../kernel/model/why.js'
import { defineProcess } from './define.js'
import type { ProcessHandle, StartedProcess } from './handle.js'
import { defineManager } from './managers/define.js'
import { stepCommand } from './managers/step-command.js'
import type { ProcessRecord } from './queries/find-processes.js'
import type { TimelineEntry } from './timeline.js'

const counter = countStatements()
const bus = await openTestBus({ faults: counter.faults })
afterAll(() => bus.close())
const by = { actor: 'ann', reason: 'ticket 7' }

const Payment = defineProcess('handles', 'Payment', {
  state: z.object({ amount: z.string().transform(Number), approved: z.boolean().default(false) }),
  responses: {
    decided: {
      data: z.object({ at: z.string().transform((text) => new Date(text)) }),
      apply: (state) => {
        state.approved = true
      },
    },
  },
  async execute(ctx, state) {
    await ctx.wait('approval', () => state.approved)
    return { paid: state.amount }
  },
})
bus.hf.register(Payment)

const Ring = defineCommand('handles', 'Ring', { data: z.object({}) })
const Order = defineManager('handles', 'Order', {
  state: z.object({ order: z.string() }),
  firstStep: () => 'ring',
  command: () => stepCommand(Ring, {}),
  onReply: (state) => state,
  nextStep: () => null,
})
bus.hf.register(Order)

test('U-02, U-04 start returns a handle that says whether this call started it, and needs no further query', async () => {
  const payment = await bus.hf.start(Payment, { amount: '5' }, { key: 'PAY-1' })
  expect(payment.created).toBe(true)
  const same = bus.hf.process(Payment, 'PAY-1')
  expect(counter.counts.get('processes.find')).toBeUndefined()
  const again = await bus.hf.start(Payment, { amount: '6' }, { key: 'PAY-1' })
  expect([again.id, again.created]).toEqual([payment.id, false])
  expect((await same.get()).id).toBe(payment.id)
  expect(Object.keys(payment).sort()).toEqual(['created', 'id'])
})

test('U-04 a handle by key and one by id are the same process, and nothing is read to make one', async () => {
  const payment = await bus.hf.start(Payment, { amount: '7' }, { key: 'PAY-2' })
  expect((await payment.get()).status).toBe('WAITING_FOR_ASYNC')
  await bus.runProcesses(Payment)
  await bus.hf.process(Payment, 'PAY-2').respond('decided', { at: '2026-01-01' })
  expect(await payment.result()).toEqual({ paid: 7 })
  expect(await bus.hf.process({ domain: 'handles', type: 'Payment' }, payment.id.toUpperCase()).result()).toEqual({
    paid: 7,
  })
  expect((await payment.history()).map(({ event, name }) => event ?? name)).toEqual([
    'PROCESS_CREATED',
    'approval',
    'decided',
    'approval',
  ])
})

test.each([
  ['get', (handle: ProcessHandle) => handle.get()],
  ['result', (handle: ProcessHandle) => handle.result()],
  ['history', (handle: ProcessHandle) => handle.history()],
  ['why', (handle: ProcessHandle) => handle.why()],
  ['retry', (handle: ProcessHandle) => handle.retry(by)],
  ['retry of what was not done', (handle: ProcessHandle) => handle.retry(by, { notDone: true })],
  ['resume', (handle: ProcessHandle) => handle.resume(by)],
  ['cancel', (handle: ProcessHandle) => handle.cancel(by)],
  ['complete', (handle: ProcessHandle) => handle.complete(by)],
  ['complete of a step', (handle: ProcessHandle) => handle.complete(by, 1, { step: 'pay' })],
  ['respond', (handle: ProcessHandle) => handle.respond('decided', { at: '2026-01-01' })],
])('U-04 %s of an unknown id or key is HF_NOT_FOUND with what was asked for', async (_, call) => {
  for (const id of [newId(), 'NO-SUCH-KEY']) {
    await expect(call(bus.hf.process({ domain: 'handles', type: 'Payment' }, id))).rejects.toMatchObject({
      code: 'HF_NOT_FOUND',
      details: { model: 'processes', domain: 'handles', type: 'Payment', id },
    })
  }
  const unusable = bus.hf.process({ domain: 'handles', type: 'Payment' }, undefined as never)
  await expect(call(unusable)).rejects.toMatchObject({ code: 'HF_INVALID_KEY' })
})

test('U-04 a response needs the code of the definition, given or registered here', async () => {
  const { id } = await bus.hf.start(Order, { order: 'ORD-1' })
  const toManager = bus.hf.process({ domain: 'handles', type: 'Order' }, id)
  await expect(toManager.respond('decided', {})).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  await expect(bus.hf.process(Order, id).respond('decided' as never, {} as never)).rejects.toMatchObject({
    code: 'HF_UNKNOWN_RESPONSE',
    details: { model: 'processes', domain: 'handles', type: 'Order', response: 'decided' },
  })
})

test('U-04 cancel compensates unless told otherwise', async () => {
  const payment = await bus.hf.start(Payment, { amount: '1' })
  await payment.cancel(by)
  const cancelled = (await payment.history()).find(({ event }) => event === 'CANCEL_REQUESTED')
  expect(cancelled).toMatchObject({ ...by, detail: { compensate: true } })
})

test('U-04 the types of a definition reach its handles', () => {
  const never = async () => {
    const payment = await bus.hf.start(Payment, { amount: '5' })
    expectTypeOf(payment.created).toEqualTypeOf<boolean>()
    expectTypeOf(await payment.result()).toEqualTypeOf<{ paid: number }>()
    const same = bus.hf.process(Payment, 'PAY-1')
    expectTypeOf(payment).toExtend<typeof same>()
    expectTypeOf(await same.result()).toEqualTypeOf<{ paid: number }>()
    expectTypeOf(await same.get()).toEqualTypeOf<ProcessRecord<{ paid: number }>>()
    expectTypeOf(await same.history()).toEqualTypeOf<readonly TimelineEntry[]>()
    expectTypeOf(await same.why()).toEqualTypeOf<Why>()
    void same.respond('decided', { at: '2026-01-01' })
    // @ts-expect-error no such response
    void same.respond('desided', { at: '2026-01-01' })
    // @ts-expect-error not the data of the response
    void same.respond('decided', { at: new Date() })
    void same.retry(by, { response: { name: 'decided', data: { at: '2026-01-01' } }, deadline: '1h' })
    // @ts-expect-error not the data of the correction
    void same.retry(by, { response: { name: 'decided', data: {} } })
    void same.complete(by, { paid: 1 }, { state: { approved: true } })
    // @ts-expect-error not what the process returns
    void same.complete(by, 'paid')
    void same.complete(by, 'the result of a step', { step: 'pay' })
    expectTypeOf(bus.hf.process({ domain: 'handles', type: 'Payment' }, 'PAY-1').result()).resolves.toBeUnknown()
    const order = await bus.hf.start(Order, { order: 'ORD-1' })
    expectTypeOf(order).toExtend<StartedProcess>()
    // @ts-expect-error a manager has no responses
    void order.respond('decided', {})
    expectTypeOf(await bus.hf.startMany(Payment, [{ input: { amount: '1' } }])).toEqualTypeOf<
      { readonly id: string; readonly created: boolean }[]
    >()
  }
  expect(never).toBeTypeOf('function')
})

test('K-10 a handle cannot be stored, and the error says to store its id', () => {
  const handles = [
    bus.hf.process(Payment, 'PAY-1'),
    bus.hf.command({ domain: 'handles', type: 'Pay' }, 'PAY-1'),
    bus.hf.workflow('handles/flow', 'PAY-1'),
    bus.hf.item({ domain: 'handles', type: 'Window' }, 'PAY-1'),
  ]
  for (const handle of handles) {
    expect(() => createCodec().encode({ handle })).toThrow(
      '$.handle cannot be stored: it is a handle: return or store its `id`',
    )
  }
})
