import { numbered, openTestBus, type TestBus } from '@holdfast/testing/internal'
import { afterAll, beforeAll, describe, expect, expectTypeOf, it, test } from 'vitest'
import { z } from 'zod'
import type { StepContext } from './context.js'
import { defineWorkflow } from './define.js'
import { ofType } from './definition/declared.js'

interface Receipt {
  readonly receipt: number
}
const OrderInput = z.object({ order: z.string(), total: z.coerce.number(), kind: z.enum(['gift', 'book']).optional() })

const build = (type: string, prefix = '') =>
  defineWorkflow('typed', type, { input: OrderInput })
    .condition(
      'large',
      (order) => order.total.gt(1000).and(order.kind.ne('gift')),
      (b) => b.step('small', `${prefix}Small`, { output: ofType<'small'>() }),
    )
    .step('charge', `${prefix}ChargeCard`, { output: ofType<Receipt>() })
    .onFailure('refund', `${prefix}RefundCard`)
    .fork(
      'fulfil',
      (b) => b.step('ship', `${prefix}Ship`, { output: ofType<{ parcel: string }>() }),
      (b) => b.waitHumanConfirm('approve').step('invoice', `${prefix}Invoice`, { output: ofType<string>() }),
    )
    .join('fulfilled', 'all')
    .build()

const Order = defineWorkflow('typed', 'order', { input: OrderInput })
  .step('charge', 'ChargeCard', { output: ofType<Receipt>() })
  .onFailure('refund', 'RefundCard')
  .fork(
    'fulfil',
    (b) => b.step('ship', 'Ship', { output: ofType<{ parcel: string }>() }),
    (b) => b.waitHumanConfirm('approve').step('invoice', 'Invoice', { output: ofType<string>() }),
  )
  .join('fulfilled', 'all')
  .step('thank', 'Thank', { output: ofType<string>() })
  .build()

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())
const named = numbered('typed')

describe('U-09 what the compiler knows of a workflow', () => {
  it('is the input and the output of each handler, of joins and of compensations', () => {
    const register = () =>
      bus.hf.handle(Order, {
        ChargeCard: (order, ctx) => {
          expectTypeOf(order).toEqualTypeOf<z.output<typeof OrderInput>>()
          expectTypeOf(ctx.input).toEqualTypeOf<z.output<typeof OrderInput>>()
          return { receipt: order.total }
        },
        RefundCard: (order, ctx) => {
          expectTypeOf(order.order).toEqualTypeOf<string>()
          expectTypeOf(ctx.output).toEqualTypeOf<Receipt | undefined>()
        },
        Ship: ({ receipt }) => ({ parcel: String(receipt) }),
        Invoice: (receipt) => {
          expectTypeOf(receipt).toEqualTypeOf<Receipt>()
          return 'sent'
        },
        Thank: (fulfilled) => {
          expectTypeOf(fulfilled).toEqualTypeOf<{ readonly ship: { parcel: string }; readonly approve: string }>()
          return 'thanks'
        },
      })
    // @ts-expect-error another output than the step declares
    const wrong = () => bus.hf.handle(Order, { ChargeCard: () => 'paid' })
    // @ts-expect-error not one of its handlers
    const unknown = () => bus.hf.handle(Order, { ChargeCrad: () => 1 })
    expect([register, wrong, unknown]).toHaveLength(3)
  })

  it('is what a start takes, what its result is, and which steps a person decides', () => {
    const use = async () => {
      const order = await bus.hf.start(Order, { order: 'O-1', total: '12' }, { key: 'O-1' })
      expectTypeOf(await order.result()).toEqualTypeOf<string>()
      expectTypeOf(bus.hf.workflow(Order, 'O-1').result).returns.resolves.toEqualTypeOf<string>()
      const by = { actor: 'ann', reason: 'seen' }
      await order.decide('approve', 'confirm', by)
      // @ts-expect-error no step that a person decides
      await order.decide('charge', 'confirm', by)
      // @ts-expect-error no input
      await bus.hf.start(Order)
      // @ts-expect-error an input that does not fit
      await bus.hf.start(Order, { order: 5, total: 1 })
      // @ts-expect-error one of many that does not fit
      await bus.hf.startMany(Order, [{ input: { order: 5, total: 1 } }])
    }
    expect(use).toBeTypeOf('function')
  })

  it('is a union of the ends that a condition allows, and of an `any` join each branch, optional', () => {
    const Conditional = build('conditional')
    type Result = NonNullable<(typeof Conditional)['types']>['result']
    expectTypeOf<Result>().toEqualTypeOf<'small' | { readonly ship: { parcel: string }; readonly approve: string }>()
    const Quickest = defineWorkflow('typed', 'quickest')
      .fork(
        'ask',
        (b) => b.step('one', 'One', { output: ofType<1>() }),
        (b) => b.step('two', 'Two', { output: ofType<2>() }),
      )
      .join('asked', 'any')
      .build()
    type First = NonNullable<(typeof Quickest)['types']>['result']
    expectTypeOf<First>().toEqualTypeOf<{ readonly one?: 1; readonly two?: 2 }>()
  })

  it('is unknown where nothing was declared', () => {
    const Plain = defineWorkflow('typed', 'plain').step('a', 'A').build()
    const register = () => bus.hf.handle(Plain, { A: (input, ctx: StepContext) => [input, ctx.attempt] })
    const start = () => bus.hf.start(Plain)
    expectTypeOf(start).returns.resolves.toHaveProperty('result')
    expectTypeOf<NonNullable<(typeof Plain)['types']>['result']>().toEqualTypeOf<unknown>()
    expect(register).toBeTypeOf('function')
  })
})

test('U-09 the schema of the input parses it on start; what does not fit is refused and starts nothing', async () => {
  const name = named()
  const Flow = defineWorkflow('typed', name, { input: OrderInput }).step('a', `${name} a`).build()
  bus.hf.handle(`${name} a`, (input) => input)
  const worker = await bus.hf.run({ poll: '20ms' })
  const order = await bus.hf.start(Flow, { order: 'O-1', total: '12.5' })
  expect(await order.result()).toEqual({ order: 'O-1', total: 12.5 })
  await expect(bus.hf.start(Flow, { order: 5 } as never)).rejects.toMatchObject({ code: 'HF_INVALID_DATA' })
  const many = [{ input: { order: 'O-2', total: 1 } }, { input: { order: 5 } as never }]
  await expect(bus.hf.startMany(Flow, many)).rejects.toMatchObject({ code: 'HF_INVALID_DATA' })
  expect(await bus.hf.workflows.count({ type: name })).toBe(1)
  await worker.stop()
})

test('U-09 a condition that is a function is stored as text and decides as it says', async () => {
  const name = named()
  const Flow = build(name, `${name} `)
  expect(Flow.steps[0]).toMatchObject({ expression: '{{ and (gt .total 1000) (ne .kind "gift") }}' })
  bus.hf.handle(`${name} Small`, () => 'small')
  const worker = await bus.hf.run({ poll: '20ms' })
  const small = await bus.hf.start(Flow, { order: 'O-1', total: 5 })
  expect(await small.result()).toBe('small')
  await worker.stop()
})
