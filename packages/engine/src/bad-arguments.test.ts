import { openTestBus, type TestBus } from '@holdfast/testing/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from './commands/index.js'
import { defineDispatch, processTarget } from './dispatch/index.js'
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
const Ship = defineWorkflow('bad-ship', 1).step('a', 'bad-a').build()
const Later = defineDispatch('bad-later', { target: processTarget(Order) })

let bus: TestBus
let order: string
beforeAll(async () => {
  bus = await openTestBus()
  bus.hf.register(Order)
  bus.hf.register(Round)
  bus.hf.register(Ship)
  bus.hf.register(Later)
  order = (await bus.hf.start(Order, {}, { deferred: true })).id
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
    ['startMany', () => bus.hf.startMany(Order, [{ state: {} }], options)],
    ['respond', () => bus.hf.respond(Order, order, 'paid', 1, options)],
    ['workflows.start', () => bus.hf.workflows.start(Ship, {}, options)],
    [
      'dispatch.schedule',
      () => bus.hf.dispatch.schedule(Later, { itemId: 'i', context: {}, execTime: new Date(0) }, options),
    ],
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

test('K-15 a transaction that is undefined is none', async () => {
  expect(await bus.hf.send(Pay, 1, { transaction: undefined as never })).toMatch(/-/)
})
