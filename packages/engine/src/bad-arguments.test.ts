import { openTestBus, type TestBus } from '@holdfast/testing/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from './commands/index.js'
import { defineDispatch, processTarget } from './dispatch/index.js'
import { BusinessError } from './kernel/failure/failure-errors.js'
import { defineManager, defineProcess } from './processes/index.js'
import { defineWorkflow } from './workflows/index.js'

const Any = z.any()
const Pay = defineCommand('bad', 'Pay', { data: Any })
const Order = defineProcess('bad', 'Order', {
  state: Any,
  responses: { paid: { data: Any, apply: (state) => state } },
  async execute(ctx) {
    await ctx.wait('paid', () => false, { timeout: '1h' })
  },
})
const Round = defineManager('bad', 'Round', {
  state: Any,
  steps: ['a'],
  firstStep: () => 'a',
  waitOnly: () => true,
  command: () => undefined as never,
  onReply: (state) => state,
  nextStep: () => null,
})
const Ship = defineWorkflow('test', 'bad-ship').step('a', 'bad-a').build()
const Later = defineDispatch('bad-later', 'Items', { target: processTarget(Order) })

let bus: TestBus
let order: string
beforeAll(async () => {
  bus = await openTestBus()
  bus.hf.register(Order)
  bus.hf.register(Round)
  bus.hf.register(Ship)
  bus.hf.register(Later)
  order = (await bus.hf.start(Order, {}, { immediate: false })).id
})
afterAll(() => bus.close())

const TABLES = ['command', 'process', 'process_response', 'workflow', 'dispatch_item', 'audit']
async function written(): Promise<unknown> {
  const counts = TABLES.map((table) => `(select count(*) from holdfast.${table})::int as ${table}`)
  const [row] = await bus.sql<object>(`select ${counts.join()}`)
  return row
}

describe.each([null, Number.NaN, 0, '', false, 5, {}])('K-15 a transaction that is %s', (none) => {
  const options = { transaction: none as never }
  test.each<[string, () => Promise<unknown>]>([
    ['send', () => bus.hf.send(Pay, 1, options)],
    ['sendMany', () => bus.hf.sendMany(Pay, [{ data: 1 }], options)],
    ['start', () => bus.hf.start(Order, {}, options)],
    ['start of a manager', () => bus.hf.start(Round, {}, options)],
    ['startMany', () => bus.hf.startMany(Order, [{ input: {} }], options)],
    ['respond', () => bus.hf.process(Order, order).respond('paid', 1, options)],
    ['start of a workflow', () => bus.hf.start(Ship, {}, options)],
    ['schedule', () => bus.hf.schedule(Later, { key: 'i', context: {}, startAt: new Date(0) }, options)],
    ['queues.send', () => bus.hf.queues.send('bad_queue', {}, options)],
    ['queues.sendBatch', () => bus.hf.queues.sendBatch('bad_queue', [{}], options)],
  ])('is refused by %s, and nothing is written outside it', async (_, call) => {
    const before = await written()
    await expect(call()).rejects.toMatchObject({
      code: 'HF_INVALID_OPTION',
      message: expect.stringContaining('transaction'),
    })
    expect(await written()).toEqual(before)
  })
})

test('K-15 `transaction: undefined` means no transaction', async () => {
  expect((await bus.hf.send(Pay, 1, { transaction: undefined as never })).id).toMatch(/-/)
})

const by = { actor: 'ann', reason: 'test' }
const boom = () => {
  throw new Error('it cannot be read')
}
const none = undefined as never
const trap = new Proxy({}, { get: boom, ownKeys: boom, has: boom, getPrototypeOf: boom }) as never

test.each<[string, () => unknown]>([
  ['send without a definition', () => bus.hf.send(none, 1)],
  ['sendMany without a definition', () => bus.hf.sendMany(none, [{ data: none }])],
  ['start without a definition', () => bus.hf.start(none, {} as never)],
  ['startMany without a definition', () => bus.hf.startMany(none, [{ input: {} }])],
  ['startMany of nothing', () => bus.hf.startMany(Order, [none])],
  ['respond without a definition', () => bus.hf.process(none, order).respond('paid' as never, 1 as never)],
  ['respond with a symbol', () => bus.hf.process(Order, order).respond(Symbol('paid') as never, none)],
  ['handle without a definition', () => bus.hf.handle(none, () => 1)],
  ['register without a definition', () => bus.hf.register(none)],
  ['commands.cancel without a definition', () => bus.hf.command(none, order).cancel(by)],
  ['commands.result without a definition', () => bus.hf.command(none, order).result()],
  ['commands.list of a domain that is no text', () => bus.hf.commands.list({ domain: Number.NaN as never })],
  ['commands.list of a domain with NUL', () => bus.hf.commands.list({ domain: 'a\0b' })],
  ['pause of nothing', () => bus.hf.pause(none, by)],
  ['pause of null', () => bus.hf.pause(null as never, by)],
  ['pause of a text', () => bus.hf.pause('payments' as never, by)],
  ['pause of a name with NUL', () => bus.hf.pause({ domain: 'a\0b' }, by)],
  ['resume of nothing', () => bus.hf.resume(none, by)],
  ['an actor that is a number', () => bus.hf.pause({ domain: 'bad' }, { actor: 5 as never, reason: 'x' })],
  ['an actor with NUL', () => bus.hf.pause({ domain: 'bad' }, { actor: 'a\0b', reason: 'x' })],
  ['a reason with half a surrogate pair', () => bus.hf.pause({ domain: 'bad' }, { actor: 'a', reason: 'x\ud800' })],
  ['an operator who is a text', () => bus.hf.process(Order, order).resume('ann' as never)],
  ['trouble.retry of nothing', () => bus.hf.trouble.retry(none, by)],
  ['trouble.retry by nobody', () => bus.hf.trouble.retry([], none)],
  ['trouble.complete of nothing', () => bus.hf.trouble.complete(none, by)],
  ['retry by nobody', () => bus.hf.command(Pay, order).retry(none)],
  ['complete by nobody', () => bus.hf.command(Pay, order).complete(none)],
  ['trouble.retry of a text', () => bus.hf.trouble.retry('x' as never, by)],
  ['trouble.retry of an empty filter', () => bus.hf.trouble.retry({}, by)],
  ['auditTrail of a text', () => bus.hf.auditTrail('x' as never)],
  ['auditTrail of nothing', () => bus.hf.auditTrail(none)],
  ['auditTrail of a list', () => bus.hf.auditTrail([] as never)],
  ['auditTrail of an id that is none', () => bus.hf.auditTrail({ id: 'PAY-1' })],
  ['auditTrail of a name with NUL', () => bus.hf.auditTrail({ name: 'a\0b' })],
  ['processes.list of null', () => bus.hf.processes.list(null as never)],
  ['processes.list of a number', () => bus.hf.processes.list(5 as never)],
  ['dispatch.configure of nothing', () => bus.hf.dispatch.configure(Later, none, by)],
  ['a batch whose onComplete is an empty text', () => bus.hf.batches.open('bad', { onComplete: '' as never })],
  ['a batch with NUL in its name', () => bus.hf.batches.open('bad', { name: 'a\0b' })],
  ['an attribute with NUL', () => bus.hf.start(Order, {}, { attributes: { a: 'x\0' } })],
  ['an attribute whose name has NUL', () => bus.hf.start(Order, {}, { attributes: { 'a\0': 'x' } })],
  ['a responseId with NUL', () => bus.hf.process(Order, order).respond('paid', 1, { responseId: 'a\0b' })],
  ['a limit key with NUL', () => bus.hf.limits.tryAcquire('a\0b')],
  [
    'send with a getter that throws',
    () => bus.hf.send(Pay, 1, Object.defineProperty({}, 'delay', { get: boom, enumerable: true })),
  ],
  ['send with options that cannot be read', () => bus.hf.send(Pay, 1, trap)],
  ['start with options that cannot be read', () => bus.hf.start(Order, {}, trap)],
  ['start of a workflow with options that cannot be read', () => bus.hf.start(Ship, {}, trap)],
  ['a worker with NUL in its name', () => bus.hf.run({ name: 'a\0b' })],
  ['a worker with half a surrogate pair in its name', () => bus.hf.run({ name: 'x\ud800y' })],
  ['fork of nothing', () => defineWorkflow('test', 'bad-fork').fork('f', none)],
  ['defineCommand with a symbol', () => defineCommand(Symbol('x') as never, 'a')],
  [
    'defineProcess with a symbol',
    () => defineProcess(Symbol('x') as never, 'a', { state: Any, execute: async () => 1 }),
  ],
  [
    'defineDispatch with a symbol',
    () => defineDispatch(Symbol('x') as never, 'Items', { target: processTarget(Order) }),
  ],
  ['defineWorkflow with a symbol', () => defineWorkflow('test', Symbol('x') as never)],
])('K-14 %s is refused with a code, and nothing is written', async (_, call) => {
  const before = await written()
  const error = await (async () => call())().then(
    () => undefined,
    (problem: unknown) => problem,
  )
  expect(error).toMatchObject({ name: 'HoldfastError', code: expect.stringMatching(/^HF_(?!DATABASE_ERROR)/) })
  expect(await written()).toEqual(before)
})

const HUGE = 'h'.repeat(3_000_000) as never
test.each<[string, () => unknown]>([
  ['processes.list', () => bus.hf.processes.list(HUGE)],
  ['commands.list', () => bus.hf.commands.list(HUGE)],
  ['send', () => bus.hf.send(Pay, 1, HUGE)],
  ['pause', () => bus.hf.pause(HUGE, by)],
  ['auditTrail', () => bus.hf.auditTrail(HUGE)],
  ['worker', () => bus.hf.worker('bad', HUGE)],
  ['trouble.list', () => bus.hf.trouble.list(HUGE)],
  ['an option of that name', () => bus.hf.send(Pay, 1, { [HUGE]: 1 } as never)],
  ['defineCommand', () => defineCommand(HUGE, HUGE)],
  ['defineWorkflow', () => defineWorkflow('test', HUGE)],
])('K-13 a text of 3 MB as the options of %s is refused at once, in a short message', async (_, call) => {
  const began = performance.now()
  const error = await (async () => call())().catch((problem: unknown) => problem)
  expect(error).toMatchObject({ name: 'HoldfastError' })
  expect((error as Error).message.length).toBeLessThan(1_000)
  // It took from 8 to 21 s.
  expect(performance.now() - began).toBeLessThan(2_000)
})

test('K-08 a failure that is given null as its options is still that failure', () => {
  expect(new BusinessError('declined', null as never)).toMatchObject({ code: 'BUSINESS_ERROR', message: 'declined' })
})

describe.each(['a/b', 'a#2', 'a\0b', 'x\ud800', '', ' ', 'x'.repeat(201), undefined, 5])('K-24 the name %j', (bad) => {
  const name = bad as string
  test.each<[string, () => unknown]>([
    ['the domain of a command', () => defineCommand(name, 'a')],
    ['the type of a command', () => defineCommand('a', name)],
    ['the domain of a process', () => defineProcess(name, 'a', { state: Any, execute: async () => 1 })],
    ['the type of a process', () => defineProcess('a', name, { state: Any, execute: async () => 1 })],
    ['a workflow', () => defineWorkflow('test', name)],
    ['a step of a workflow', () => defineWorkflow('test', 'a').step(name, 'h').build()],
    ['a type of dispatched items', () => defineDispatch(name, 'Items', { target: processTarget(Order) })],
  ])('is refused for %s', (_, call) => {
    expect(call).toThrow(expect.objectContaining({ name: 'HoldfastError' }))
  })
})

describe.each(['bad', 42, '', {}, { domain: undefined }, { domain: 7 }, null])(
  'K-13 %j in place of a command',
  (of) => {
    const id = '01a1e34b-15a6-74d6-9aa2-0733a11498ea'
    const command = of as never
    test('makes no handle', () => {
      expect(() => bus.hf.command(command, id)).toThrow(
        expect.objectContaining({
          code: 'HF_INVALID_OPTION',
          message: expect.stringContaining('must be a definition made with defineCommand, or { domain, type }'),
        }),
      )
    })
  },
)
