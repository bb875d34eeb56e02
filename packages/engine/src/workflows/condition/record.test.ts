import fc from 'fast-check'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { defineWorkflow } from '../define.js'
import { ofType } from '../definition/declared.js'
import { parseCondition } from './condition.js'
import { type Field, type RecordedCondition, recordCondition } from './record.js'

interface Order {
  readonly total: number
  readonly kind?: string
  readonly isPaid: boolean
  readonly customer: { readonly name: string; readonly age: number }
}

const record = (condition: (order: Field<Order>) => RecordedCondition) => recordCondition(condition)
const holds = (expression: string, input: unknown) =>
  parseCondition(expression).test({ input: JSON.stringify(input), instanceId: 'i', stepName: 's' })

describe('U-09 a condition as a function', () => {
  it.each<[string, (order: Field<Order>) => RecordedCondition]>([
    ['{{ gt .total 1000 }}', (order) => order.total.gt(1000)],
    ['{{ ge .total "1000.01" }}', (order) => order.total.gte('1000.01')],
    ['{{ lt .customer.age 18 }}', (order) => order.customer.age.lt(18)],
    ['{{ le .total .customer.age }}', (order) => order.total.lte(order.customer.age)],
    ['{{ eq .kind "gift" "book" }}', (order) => order.kind.eq('gift', 'book')],
    ['{{ ne .kind nil }}', (order) => order.kind.ne(null)],
    ['{{ contains .customer.name "\\"\\\\\\u000a" }}', (order) => order.customer.name.contains('"\\\n')],
    ['{{ hasPrefix .kind "g" }}', (order) => order.kind.hasPrefix('g')],
    ['{{ hasSuffix .kind "t" }}', (order) => order.kind.hasSuffix('t')],
    ['{{ .isPaid }}', (order) => order.isPaid],
    ['{{ not .isPaid }}', (order) => order.isPaid.not()],
    [
      '{{ or (and .isPaid (gt .total 1)) (not (eq .kind "gift")) }}',
      (order) => order.isPaid.and(order.total.gt(1)).or(order.kind.eq('gift').not()),
    ],
  ])('is stored as %s', (text, condition) => {
    expect(record(condition)).toBe(text)
    expect(parseCondition(text).text).toBe(text)
  })

  it('knows the fields of the input and their types', () => {
    const builder = defineWorkflow('typed', 'condition', { input: ofType<Order>() })
    builder.condition('a', (order) => {
      expectTypeOf(order.customer.age.gt).returns.toEqualTypeOf<RecordedCondition>()
      return order.total.gt(1)
    })
    // @ts-expect-error no such field
    expect(() => builder.condition('a', (order) => order.totl.gt(1)).build()).not.toThrow()
    // @ts-expect-error a text beside a boolean
    expect(() => builder.condition('a', (order) => order.isPaid.eq('yes')).build()).not.toThrow()
  })

  it.each<[string, (order: never) => unknown, string]>([
    ['nothing', () => undefined, 'compares fields, texts, numbers, booleans and null, not undefined'],
    ['no number', (order: Field<Order>) => order.total.gt(Number.NaN), 'not NaN'],
    ['an operator of JavaScript', (order: Field<Order>) => Number(order.total) > 1, 'cannot use'],
    [
      'a field of a comparison',
      (order: { total: Field<number> }) => (order.total.gt(1) as never)['total'],
      'has no `total`',
    ],
    [
      'a field that cannot be named',
      (order: Record<string, unknown>) => order['a b'],
      'cannot be named in a condition',
    ],
  ])('is refused where it records %s', (_, condition, problem) => {
    expect(() =>
      defineWorkflow('typed', 'refused')
        .condition('a', condition as never)
        .build(),
    ).toThrow(expect.objectContaining({ code: 'HF_INVALID_WORKFLOW', message: expect.stringContaining(problem) }))
  })

  it('decides as the same comparison in JavaScript does, for any numbers, texts and combination of them', () => {
    type Model = { readonly total: number; readonly kind: string; readonly isPaid: boolean }
    type Case = {
      readonly record: (order: Field<Model>) => RecordedCondition
      readonly test: (order: Model) => boolean
    }
    const number = fc.integer({ min: -1000, max: 1000 })
    const text = fc.string({ unit: 'grapheme', maxLength: 8 })
    const comparison: fc.Arbitrary<Case> = fc.oneof(
      number.map((n): Case => ({ record: (order) => order.total.gt(n), test: (order) => order.total > n })),
      number.map((n): Case => ({ record: (order) => order.total.gte(n), test: (order) => order.total >= n })),
      number.map((n): Case => ({ record: (order) => order.total.lt(n), test: (order) => order.total < n })),
      number.map((n): Case => ({ record: (order) => order.total.lte(n), test: (order) => order.total <= n })),
      number.map((n): Case => ({ record: (order) => order.total.eq(n), test: (order) => order.total === n })),
      number.map((n): Case => ({ record: (order) => order.total.ne(n), test: (order) => order.total !== n })),
      text.map((t): Case => ({ record: (order) => order.kind.contains(t), test: (order) => order.kind.includes(t) })),
      text.map(
        (t): Case => ({ record: (order) => order.kind.hasPrefix(t), test: (order) => order.kind.startsWith(t) }),
      ),
      text.map((t): Case => ({ record: (order) => order.kind.hasSuffix(t), test: (order) => order.kind.endsWith(t) })),
      fc.constant<Case>({ record: (order) => order.isPaid, test: (order) => order.isPaid }),
    )
    const { condition } = fc.letrec<{ condition: Case }>((tie) => ({
      condition: fc.oneof(
        { maxDepth: 4 },
        comparison,
        tie('condition').map(
          (c): Case => ({ record: (order) => c.record(order).not(), test: (order) => !c.test(order) }),
        ),
        fc.tuple(tie('condition'), tie('condition')).map(
          ([a, b]): Case => ({
            record: (order) => a.record(order).and(b.record(order)),
            test: (order) => a.test(order) && b.test(order),
          }),
        ),
        fc.tuple(tie('condition'), tie('condition')).map(
          ([a, b]): Case => ({
            record: (order) => a.record(order).or(b.record(order)),
            test: (order) => a.test(order) || b.test(order),
          }),
        ),
      ),
    }))
    const order = fc.record({ total: number, kind: text, isPaid: fc.boolean() })
    fc.assert(
      fc.property(condition, order, (one, input) => {
        expect(holds(recordCondition(one.record), input)).toBe(one.test(input))
      }),
    )
  })
})
