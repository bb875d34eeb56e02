import {
  BusinessError,
  defineCommand,
  defineDispatch,
  defineManager,
  defineProcess,
  PermanentError,
  processTarget,
  stepCommand,
  TransientError,
} from 'holdfast'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { crashTest } from '../crash/crash-test.js'
import { createEffects } from '../effects/effects.js'
import { faultTest } from '../fault-test/fault-test.js'
import { gate } from '../harness/gate.js'
import { waitFor } from '../harness/wait-for.js'
import { behaviour } from '../simulation/behaviour.js'
import { createSimulator } from '../simulation/simulator.js'
import { type TestKitOptions, testKit } from './test-kit.js'

const BookRisk = defineCommand('payments', 'BookRisk', {
  data: z.object({ cents: z.int() }),
  retry: { maxAttempts: 3 },
})

const Payment = defineProcess('payments', 'Payment', {
  state: z.object({ approved: z.boolean().optional() }),
  responses: {
    decided: {
      data: z.object({ approved: z.boolean() }),
      apply: (state, { approved }) => {
        state.approved = approved
      },
    },
  },
  async execute(ctx, state) {
    await ctx.step('book', async () => 'booked', { compensate: async () => undefined })
    await ctx.wait('decision', () => state.approved !== undefined, { timeout: '2h', onTimeout: 'compensate' })
    await ctx.sleep('valueDate', '3d')
    return 'paid'
  },
})

async function kitOf(options?: TestKitOptions) {
  const kit = await testKit(options)
  onTestFinished(() => kit.close())
  return kit
}

test('X-01 a test gets a database of its own, which goes with the kit', async () => {
  const first = await testKit({ prepare: 'create table ledger (cents int)' })
  const second = await kitOf()
  await first.sql('insert into ledger values (1)')
  expect(await first.sql('select cents from ledger')).toEqual([{ cents: 1 }])
  await expect(second.sql('select from ledger')).rejects.toThrow('does not exist')

  await first[Symbol.asyncDispose]()
  await expect(new pg.Client({ connectionString: first.connectionString }).connect()).rejects.toThrow('does not exist')
})

test('X-01 K-01 the clock is moved: a timeout of two hours happens at once', async () => {
  const kit = await kitOf({ register: [Payment] })
  const { id, status } = await (await kit.hf.start(Payment, {})).get()
  expect(status).toBe('WAITING_FOR_ASYNC')
  await kit.drain()
  expect((await kit.hf.process(Payment, id).get()).status).toBe('WAITING_FOR_ASYNC')

  const before = await kit.clock.now()
  await kit.clock.advance('2h')
  expect((await kit.clock.now()).getTime() - before.getTime()).toBeGreaterThanOrEqual(7_200_000)
  await kit.drain()
  await kit.expectHistory(Payment, id, [
    'PROCESS_CREATED',
    'STEP book COMPLETED',
    'WAIT decision STARTED',
    'WAIT decision FAILED WAIT_TIMEOUT',
    'COMPENSATION book COMPLETED',
    'COMPENSATED WAIT_TIMEOUT',
  ])
})

test('X-01 drained with time skipped, days of sleep pass, and no more time than the work needs', async () => {
  const kit = await kitOf({ register: [Payment] })
  const { id } = await kit.hf.start(Payment, {})
  await kit.hf.process(Payment, id).respond('decided', { approved: true })
  expect(await kit.drain({ skipTime: '1d' })).toEqual({ skippedMs: 0 })
  expect((await kit.hf.process(Payment, id).get()).waitingFor).toBe('valueDate')

  const { skippedMs } = await kit.drain({ skipTime: true })
  expect(Math.round(skippedMs / 3_600_000)).toBe(72)
  expect(await kit.hf.process(Payment, id).result()).toBe('paid')
  expect(await kit.drain({ skipTime: true })).toEqual({ skippedMs: 0 })
})

test('X-01 fake handlers return and fail as configured, and record their calls', async () => {
  const kit = await kitOf()
  const risk = kit
    .fake(BookRisk, ({ cents }) => ({ reference: `R-${cents}` }))
    .failsOnce(new TransientError('restarting'))
    .returnsOnce({ reference: 'by hand' })
  const { id: first } = await kit.hf.send(BookRisk, { cents: 1 })
  await kit.drain({ skipTime: true })
  const { id: second } = await kit.hf.send(BookRisk, { cents: 2 })
  await kit.drain()

  expect((await kit.hf.command(BookRisk, first).get()).result).toEqual({ reference: 'by hand' })
  expect((await kit.hf.command(BookRisk, second).get()).result).toEqual({ reference: 'R-2' })
  expect(risk.calls.map(({ args: [data, ctx] }) => [data.cents, ctx.attempt])).toEqual([
    [1, 1],
    [1, 2],
    [2, 1],
  ])
  expect(risk.calls[0]?.error).toMatchObject({ message: 'restarting' })
  await kit.expectHistory(BookRisk, first, ['SENT', 'RECEIVED', 'RETRY_SCHEDULED', 'RECEIVED', 'COMPLETED'])

  risk.fails(new PermanentError('no such account', { code: 'NO_ACCOUNT' }))
  const { id: third } = await kit.hf.send(BookRisk, { cents: 3 })
  await kit.drain()
  expect((await kit.hf.command(BookRisk, third).get()).status).toBe('IN_TROUBLESHOOTING_QUEUE')
})

test('X-01 a fake without a configured result fails with a clear error', async () => {
  const kit = await kitOf()
  const risk = kit.fake(BookRisk)
  await kit.hf.send(BookRisk, { cents: 1 })
  await kit.drain({ skipTime: true })
  expect(risk.calls[0]?.error).toMatchObject({ message: expect.stringContaining('has no result') })
})

const Order = defineManager('payments', 'Order', {
  state: z.object({}),
  firstStep: () => 'book',
  command: () => stepCommand(BookRisk, { cents: 5 }),
  onReply: (state) => state,
  nextStep: () => null,
})

const Group = defineProcess('payments', 'Group', {
  state: z.object({}),
  async execute(ctx) {
    await ctx.command('own', BookRisk, { cents: 7 })
    await ctx.child('child', Payment, { approved: true })
    return 'all'
  },
})

test('X-01 a drain runs commands, processes, children, managers, replies and batches until all have ended', async () => {
  const Closed = defineCommand('payments', 'Closed')
  const kit = await kitOf({ register: [Payment, Order, Group] })
  const risk = kit.fake(BookRisk, {})
  const closed = kit.fake(Closed, {})
  const order = await kit.hf.start(Order, {})
  const group = await kit.hf.start(Group, {}, { immediate: false })
  const batch = await kit.hf.batches.open('night', { onComplete: Closed })
  await kit.hf.send(BookRisk, { cents: 9 }, { batch: batch })
  await kit.hf.batches.seal(batch)

  await kit.drain({ skipTime: true })
  expect((await kit.hf.process(Order, order.id).get()).status).toBe('COMPLETED')
  expect((await kit.hf.process(Group, group.id).get()).status).toBe('COMPLETED')
  expect((await kit.hf.batches.get(batch)).status).toBe('COMPLETED')
  expect(new Set(risk.calls.map(({ args: [{ cents }] }) => cents))).toEqual(new Set([5, 7, 9]))
  expect(risk.calls).toHaveLength(3)
  expect(closed.calls).toHaveLength(1)
})

test('X-01 work that no worker here has code for is ignored: a drain ends while it waits', async () => {
  const kit = await kitOf({ register: [Group] })
  const { id } = await kit.hf.start(Group, {})
  await kit.drain()
  expect(await kit.history(Group, id)).toEqual(['PROCESS_CREATED', 'COMMAND own STARTED', 'WAITING_FOR_ASYNC own'])
})

test('X-01 a drain waits for what the test itself does, and for workers that the test has started', async () => {
  const kit = await kitOf()
  const bank = gate()
  const risk = kit.fake(BookRisk, async () => {
    await bank.passed
    return {}
  })
  await kit.hf.run({ poll: '10ms' })
  const { id } = await kit.hf.send(BookRisk, { cents: 1 })
  await waitFor('the worker has it', async () => (await kit.hf.command(BookRisk, id).get()).status === 'IN_PROGRESS')
  await expect(kit.drain({ timeout: '100ms' })).rejects.toThrow('still running: commands (1)')
  const drained = kit.drain()
  bank.open()
  await drained
  expect(risk.calls).toHaveLength(1)

  setTimeout(() => void kit.hf.send(BookRisk, { cents: 2 }), 50)
  await kit.drain({ until: () => risk.calls.length === 2 })
  await expect(kit.drain({ until: () => risk.calls.length === 3, timeout: '300ms' })).rejects.toThrow(
    'nothing is due any more',
  )
})

test('X-01 a business failure is in the history with its code', async () => {
  const Declined = defineProcess('payments', 'Declined', {
    state: z.object({}),
    async execute(ctx) {
      await ctx.step('book', async () => 1, { compensate: async () => undefined })
      await ctx.step('submit', async () => {
        throw new BusinessError('no', { code: 'DECLINED' })
      })
    },
  })
  const kit = await kitOf({ register: [Declined] })
  const { id } = await kit.hf.start(Declined, {}, { key: 'PAY-1' })
  await kit.expectHistory(Declined, 'PAY-1', [
    '…',
    'STEP submit FAILED DECLINED',
    'COMPENSATION book COMPLETED',
    'COMPENSATED DECLINED',
  ])
  await expect(kit.expectHistory(Declined, id, ['PROCESS_CREATED', 'STEP book FAILED', '…', /^COMP/])).rejects.toThrow(
    ['    PROCESS_CREATED', '  - STEP book FAILED', '    STEP book COMPLETED'].join('\n'),
  )
})

test('X-01 a drain releases what dispatch has scheduled, and skips to its time where it may; an empty window does not delay it', async () => {
  const paid: string[] = []
  const Settle = defineProcess('payments', 'Settle', {
    state: z.object({ payment: z.string() }),
    async execute(ctx, { payment }) {
      await ctx.step('pay', async () => void paid.push(payment))
    },
  })
  const Window = defineDispatch('window', 'Items', { target: processTarget(Settle) })
  const kit = await testKit({ register: [Settle, Window] })
  onTestFinished(() => kit.close())
  await kit.drain({ skipTime: true })
  const item = (payment: string, ahead: number) => ({
    key: payment,
    context: { payment },
    startAt: new Date(Date.now() + ahead),
  })
  await kit.hf.schedule(Window, [item('PAY-1', 3_600_000), item('PAY-2', 0)])
  await kit.drain({ skipTime: '1m' })
  expect(paid).toEqual(['PAY-2'])
  await kit.drain({ skipTime: true })
  expect(paid).toEqual(['PAY-2', 'PAY-1'])
  expect(await kit.hf.dispatch.depth(Window)).toMatchObject({ READY: 0, DISPATCHED: 0, COMPLETED: 2 })
})

test('K-13 X-01 an option that does not exist is refused, with the nearest that does', async () => {
  const unknown = (option: string) =>
    expect.objectContaining({ code: 'HF_UNKNOWN_OPTION', details: expect.objectContaining({ option }) })
  // @ts-expect-error no such option
  await expect(testKit({ registr: [] })).rejects.toEqual(unknown('registr'))
  await using kit = await testKit()
  // @ts-expect-error no such option
  await expect(kit.drain({ skiptime: true })).rejects.toEqual(unknown('skiptime'))
  // @ts-expect-error no such option
  expect(() => behaviour({ transien: 10 }, 1)).toThrow(unknown('transien'))
  // @ts-expect-error no such option
  expect(() => createEffects({ fault: {} })).toThrow(unknown('fault'))
  // @ts-expect-error no such option
  await expect(crashTest({ invariants: () => undefined })).rejects.toEqual(unknown('invariants'))
  // @ts-expect-error no such option
  await expect(faultTest({ seed: 1 })).rejects.toEqual(unknown('seed'))
  // @ts-expect-error no such option
  expect(() => createSimulator({ finds: async () => [] })).toThrow(unknown('finds'))
})
