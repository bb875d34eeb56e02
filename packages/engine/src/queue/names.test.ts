import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { commandQueueFor, ownNameOf, queueNameFor } from './names.js'

describe('Q-03 the name of a queue', () => {
  test.each([
    ['holdfast', 'orders', 'orders'],
    ['holdfast', 'orders__replies', 'orders__replies'],
    ['holdfast', 'order-intake_2', 'order-intake_2'],
    ['pay', 'orders', 'hf_pay__orders'],
    ['pay_eu', 'orders', 'hf_pay_eu__orders'],
    ['Pay', 'orders', 'hf_pay_723afa39__orders'],
  ])('in schema %s the queue %s is %s', (schema, name, expected) => {
    expect(queueNameFor(schema, name)).toBe(expected)
    expect(ownNameOf(schema, expected)).toBe(name)
  })

  test('a domain has the queue `<domain>__commands`', () => {
    expect(commandQueueFor('holdfast', 'payments')).toBe('payments__commands')
    expect(commandQueueFor('pay', 'payments')).toBe('hf_pay__payments__commands')
  })

  test.each([
    ['', 'not empty'],
    ['Orders', 'same queue as `orders`'],
    ['orders;drop', 'only the letters a to z'],
    ["it's", 'only the letters a to z'],
    ['a$b', 'only the letters a to z'],
    ['größe', 'only the letters a to z'],
    ['a b', 'only the letters a to z'],
    ['a--b', 'does not take `--`'],
    ['hf_pay__orders', 'kept for installations in other schemas'],
    ['orders_msg_id_seq', 'an index or sequence of another queue'],
    ['x'.repeat(48), 'at most 47 characters, and it has 48'],
  ])('%s is refused', (name, problem) => {
    expect(() => queueNameFor('holdfast', name)).toThrow(
      expect.objectContaining({ code: 'HF_INVALID_QUEUE_NAME', message: expect.stringContaining(problem) }),
    )
  })

  test('a name that is not a string is refused', () => {
    // @ts-expect-error what a caller without types might give
    expect(() => queueNameFor('holdfast', Symbol('x'))).toThrow(
      expect.objectContaining({ code: 'HF_INVALID_QUEUE_NAME', message: expect.stringContaining('must be a text') }),
    )
  })

  test('the schema counts among the 47 characters, and the message says so', () => {
    expect(queueNameFor('pay', 'x'.repeat(39))).toHaveLength(47)
    expect(() => queueNameFor('pay', 'x'.repeat(40))).toThrow('it has with `hf_pay__`, which stands for the schema, 48')
    expect(() => commandQueueFor('holdfast', 'x'.repeat(38))).toThrow('at most 47 characters, and it has 48')
  })

  test('a refused domain is named as one', () => {
    expect(() => commandQueueFor('holdfast', 'pay ments')).toThrow("the domain 'pay ments' cannot be")
  })
})

describe('Q-03 two installations never affect each other', () => {
  const schema = fc.oneof(
    fc.constantFrom(
      'holdfast',
      'pay',
      'Pay',
      'pay_',
      '_pay',
      'pay__orders',
      'hf_pay',
      'a"b',
      "a'b",
      'a b',
      'ä',
      '😀',
      '日本',
    ),
    fc.stringMatching(/^[a-z0-9_]{1,24}$/),
    fc.string({ minLength: 1, maxLength: 40, unit: 'grapheme' }),
  )
  const name = fc.oneof(
    fc.constantFrom('orders', '_orders', 'pay__orders', '__x'),
    fc.stringMatching(/^[a-z0-9_]{1,20}$/),
  )
  const valid = (text: string) => !text.startsWith('hf_') && !/_(msg_id_seq|pkey|vt_idx|hf_type_idx)$/.test(text)

  test('different schemas or names have different queues, all of which PGMQ takes', () => {
    fc.assert(
      fc.property(schema, name.filter(valid), schema, name.filter(valid), (schemaA, nameA, schemaB, nameB) => {
        const a = queueNameFor(schemaA, nameA)
        expect(a).toMatch(/^[a-z0-9_]{1,47}$/)
        expect(a === queueNameFor(schemaB, nameB)).toBe(schemaA === schemaB && nameA === nameB)
        expect(ownNameOf(schemaA, a)).toBe(nameA)
        if (schemaA !== schemaB) expect(ownNameOf(schemaB, a)).toBeUndefined()
      }),
      { numRuns: 2_000 },
    )
  })

  test('a schema whose name looks like that of a hashed one is hashed too', () => {
    const odd = queueNameFor('Pay', 'x')
    const [, part = ''] = /^hf_(.*)__x$/.exec(odd) ?? []
    expect(part).toMatch(/^pay_[0-9a-f]{8}$/)
    expect(queueNameFor(part, 'x')).not.toBe(odd)
  })
})
