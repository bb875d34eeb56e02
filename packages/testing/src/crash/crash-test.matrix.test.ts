import assert from 'node:assert'
import {
  BusinessError,
  defineCommand,
  defineManager,
  defineProcess,
  defineWorkflow,
  stepCommand,
  TransientError,
} from 'holdfast'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { isLongRun, longOr } from '../harness/long-runs.js'
import { crashTest } from './crash-test.js'
import type { CrashTestOptions } from './options.js'

/** Outside of everything that can be killed here: it books once per key, and counts all calls. */
function createBank() {
  const calls: string[] = []
  const booked = new Map<string, string>()
  return {
    calls,
    booked,
    book(key: string, what: string) {
      calls.push(what)
      booked.set(key, what)
      return { reference: `REF-${booked.size}` }
    },
    times: (what: string) => [...booked.values()].filter((one) => one === what).length,
  }
}
type Bank = ReturnType<typeof createBank>

const approvals = {
  approved: {
    data: z.object({ by: z.string() }),
    apply: (state: { approvals: number }) => {
      state.approvals += 1
    },
  },
}

function paymentVia(bank: Bank) {
  return defineProcess('payments', 'Payment', {
    state: z.object({ approvals: z.number().default(0) }),
    responses: approvals,
    async execute(ctx, state) {
      await ctx.step(
        'book',
        async ({ idempotencyKey, attempt }) => {
          if (attempt === 1) throw new TransientError('restarting')
          return bank.book(idempotencyKey, 'risk')
        },
        { retry: { maxAttempts: 3, delay: '5s' } },
      )
      await ctx.wait('approval', () => state.approvals > 0, { timeout: '2h' })
      await ctx.transaction('ledger', async (tx) => {
        await tx.query('insert into ledger values ($1)', [ctx.id])
      })
      await ctx.step('submit', async ({ idempotencyKey }) => bank.book(idempotencyKey, 'submission'))
      return state.approvals
    },
  })
}

test('X-02 a process that keeps the rules holds its invariant at every kill point', async () => {
  const report = await crashTest({
    world: createBank,
    register: (bank) => [paymentVia(bank)],
    prepare: 'create table ledger (id uuid not null)',
    kills: longOr(1_000, 2),
    start: (hf, bank) => hf.start(paymentVia(bank), {}, { key: 'PAY-1' }),
    respond: (hf, { id }, bank) => [
      () => hf.process(paymentVia(bank), id).respond('approved', { by: 'ann' }, { responseId: 'ann' }),
      () => hf.process(paymentVia(bank), id).respond('approved', { by: 'bob' }, { responseId: 'bob' }),
    ],
    async invariant({ hf, sql, subject, world }) {
      const { status } = await hf.process({ domain: 'payments', type: 'Payment' }, subject.id).get()
      assert.equal(status, 'COMPLETED')
      assert.deepEqual([world.times('risk'), world.times('submission')], [1, 1])
      assert.equal((await sql('select from ledger')).length, 1)
    },
  })
  expect(report.kills).toBeGreaterThan(longOr(5, 1))
  if (isLongRun)
    expect(report.killPoints).toEqual(expect.arrayContaining(['before processes.write#1', 'after commit#1']))
  expect(report.killPoints.some((point) => point.includes('claim'))).toBe(false)
}, 300_000)

/** Books outside of any step, and under a new key every time: a replay books again. */
function carelessVia(bank: Bank) {
  return defineProcess('payments', 'Careless', {
    state: z.object({}),
    async execute(ctx) {
      bank.book(`booking ${bank.calls.length}`, 'risk')
      await ctx.step('submit', async ({ idempotencyKey }) => bank.book(idempotencyKey, 'submission'))
    },
  })
}

const careless = {
  world: createBank,
  register: (bank: Bank) => [carelessVia(bank)],
  start: (hf, bank) => hf.start(carelessVia(bank), {}, { key: 'PAY-1' }),
  invariant: ({ world }) => assert.equal(world.times('risk'), 1, 'the risk is booked once'),
} satisfies CrashTestOptions<Bank, { id: string }>

test('X-02 a process that books outside of its steps is detected, and its seed reruns exactly that case', async () => {
  const { message } = await crashTest(careless).then(
    () => expect.unreachable('the double booking was not found'),
    (error: Error) => error,
  )
  expect(message).toContain('the risk is booked once')
  const [, seed = '', point = '', time = ''] = /seed: '(\d+:((?:before|after) [\w. -]+)#(\d+))'/.exec(message) ?? []
  expect(message).toContain(`when its worker is killed ${point}`)

  await expect(crashTest({ ...careless, seed })).rejects.toThrow(`seed: '${seed}'`)
  // Not killed it books once: only the crash test can tell.
  expect(await crashTest({ ...careless, seed: '0' })).toEqual({ runs: 1, kills: 0, killPoints: [] })
  // Repaired, the same run goes well.
  const repaired = await crashTest({
    ...careless,
    register: (bank) => [repairedVia(bank)],
    start: (hf, bank) => hf.start(repairedVia(bank), {}, { key: 'PAY-1' }),
    seed,
  })
  expect(repaired).toEqual({ runs: 1, kills: 1, killPoints: [`${point}#${time}`] })
}, 120_000)

function repairedVia(bank: Bank) {
  return defineProcess('payments', 'Careless', {
    state: z.object({}),
    async execute(ctx) {
      await ctx.step('book', async ({ idempotencyKey }) => bank.book(idempotencyKey, 'risk'))
      await ctx.step('submit', async ({ idempotencyKey }) => bank.book(idempotencyKey, 'submission'))
    },
  })
}

test('X-02 a process that treats every approval as new is detected by repeated deliveries, without any kill', async () => {
  const Countersigned = defineProcess('payments', 'Countersigned', {
    state: z.object({ approvals: z.number().default(0) }),
    responses: approvals,
    async execute(ctx, state) {
      await ctx.wait('approval', () => state.approvals > 0)
      return 'paid'
    },
  })
  const failing = crashTest({
    register: [Countersigned],
    start: (hf) => hf.start(Countersigned, {}, { key: 'PAY-1' }),
    // Without a responseId: whoever sends it twice approves twice.
    respond: (hf) => [() => hf.process(Countersigned, 'PAY-1').respond('approved', { by: 'ann' })],
    async invariant({ hf }) {
      assert.deepEqual((await hf.process(Countersigned, 'PAY-1').get()).state, { approvals: 1 })
    },
  })
  await expect(failing).rejects.toThrow(/without any kill[\s\S]*responses: [\s\S]*seed: '1'/)
}, 120_000)

test('X-02 what fails without kills and in the right order is reported as such', async () => {
  const failing = crashTest({
    ...careless,
    invariant: () => assert.fail('never right'),
  })
  await expect(failing).rejects.toThrow(/without any kill\n {2}never right\n {2}rerun exactly this: seed: '0'/)
  await expect(crashTest({ ...careless, seed: 'seven' })).rejects.toThrow('is no seed')
  await expect(crashTest({ ...careless, seed: '1:before nothing#1' })).rejects.toThrow('was not reached')
}, 120_000)

const BookRisk = defineCommand('payments', 'BookRisk', {
  data: z.object({ of: z.string() }),
  retry: { maxAttempts: 2 },
})

test('X-02 C-08 commands with a handler are killed between any two statements and have one effect', async () => {
  const report = await crashTest({
    world: createBank,
    killAt: 'every-statement',
    kills: longOr(1_000, 2),
    prepare: 'create table ledger (id uuid not null)',
    setup(hf, bank) {
      hf.handle(BookRisk, async ({ of }, ctx) => {
        bank.book(ctx.idempotencyKey, of)
        if (ctx.attempt === 1) throw new TransientError('restarting')
        return ctx.transaction(async (tx) => {
          await tx.query('insert into ledger values ($1)', [ctx.commandId])
          return { booked: of }
        })
      })
    },
    async start(hf) {
      const id = '01890a5d-ac96-774b-bcce-b302099a8057'
      await hf.send(BookRisk, { of: 'risk' }, { id, ifExists: 'ignore' })
      return id
    },
    async invariant({ hf, sql, subject, world }) {
      const { status } = await hf.command(BookRisk, subject).get()
      assert.equal(status === 'COMPLETED' || status === 'IN_TROUBLESHOOTING_QUEUE', true, status)
      assert.equal(world.times('risk'), 1)
      assert.equal((await sql('select from ledger')).length, status === 'COMPLETED' ? 1 : 0)
    },
  })
  expect(report.kills).toBeGreaterThan(0)
  if (!isLongRun) return
  expect(report.killPoints).toEqual(
    expect.arrayContaining(['before commands.receive#1', 'after commands.finish#1', 'before commit#1']),
  )
}, 300_000)

test('X-02 M-05 a manager is killed at every step of its commands and compensations', async () => {
  const Release = defineCommand('payments', 'Release', { data: z.object({ of: z.string() }) })
  const Order = defineManager('payments', 'Order', {
    state: z.object({ of: z.string() }),
    firstStep: () => 'risk',
    command: (step) => stepCommand(BookRisk, { of: step }),
    onReply: (state) => state,
    nextStep: (step) => (step === 'risk' ? 'fx' : null),
    compensation: (step) => (step === 'risk' ? stepCommand(Release, { of: step }) : undefined),
  })
  const report = await crashTest({
    world: createBank,
    register: [Order],
    setup(hf, bank) {
      hf.handle(BookRisk, ({ of }, ctx) => {
        if (of === 'fx') throw new BusinessError('no rate', { code: 'NO_RATE' })
        return bank.book(ctx.idempotencyKey, of)
      })
      hf.handle(Release, ({ of }, ctx) => bank.book(ctx.idempotencyKey, `release of ${of}`))
    },
    kills: longOr(1_000, 2),
    start: (hf) => hf.start(Order, { of: 'PAY-1' }, { key: 'PAY-1' }),
    async invariant({ hf, world, subject }) {
      const { status } = await hf.process(Order, subject.id).get()
      assert.equal(status, 'COMPENSATED')
      assert.deepEqual([world.times('risk'), world.times('release of risk')], [1, 1])
    },
  })
  expect(report.kills).toBeGreaterThan(0)
  if (isLongRun) expect(report.killPoints).toEqual(expect.arrayContaining(['before processes.apply-managed#1']))
}, 300_000)

test('X-02 W-08 a workflow with a fork, a transaction and a rollback is killed between any two statements', async () => {
  const Order = defineWorkflow('test', 'order')
    .step('risk', 'BookRisk', { retry: ['1ms'] })
    .onFailure('unbook', 'Unbook', { retry: ['1ms'] })
    .fork(
      'both',
      (b) => b.step('ledger', 'WriteLedger', { retry: ['1ms'] }),
      (b) => b.step('fx', 'BookFx', { retry: ['1ms'] }),
    )
    .join('done', 'all')
    .step('ship', 'Ship')
    .build()
  const report = await crashTest({
    world: createBank,
    killAt: 'every-statement',
    kills: longOr(1_000, 2),
    prepare: 'create table ledger (id text not null)',
    register: [Order],
    setup(hf, bank) {
      hf.handle(Order, {
        BookRisk: (_, ctx) => bank.book(ctx.idempotencyKey, 'risk'),
        Unbook: (_, ctx) => bank.book(ctx.idempotencyKey, 'unbooked'),
        BookFx: (_, ctx) => bank.book(ctx.idempotencyKey, 'fx'),
        WriteLedger: (_, ctx) =>
          ctx.transaction(async (tx) => {
            await tx.query('insert into ledger values ($1)', [ctx.idempotencyKey])
          }),
        Ship: () => {
          throw new BusinessError('sold out', { code: 'SOLD_OUT' })
        },
      })
    },
    start: (hf) => hf.start(Order, null, { key: 'ORD-1', startAt: new Date(0) }),
    async invariant({ hf, sql, subject, world }) {
      assert.equal((await hf.workflow(subject.id).get()).status, 'FAILED')
      assert.deepEqual([world.times('risk'), world.times('fx'), world.times('unbooked')], [1, 1, 1])
      assert.equal((await sql('select from ledger')).length, 1)
    },
  })
  expect(report.kills).toBeGreaterThan(0)
  if (!isLongRun) return
  expect(report.killPoints).toEqual(
    expect.arrayContaining(['before workflows.claim#1', 'after workflows.write#1', 'before commit#1']),
  )
}, 300_000)
