import { expect, test } from 'vitest'
import { classifyFailure } from './classify.js'

const stackOf = (error: unknown) => classifyFailure(error, { unknown: 'transient' }).stack

test('K-21 a failure keeps where it was thrown, without the message', () => {
  const stack = stackOf(new Error('many\nlines'))
  expect(stack).toMatch(/^at .*stack\.test\.ts/)
  expect(stack).not.toContain('many')
})

test('K-21 the stack is bounded to 4 kB, also with a huge message', () => {
  const deep = (depth: number): Error => (depth === 0 ? new Error('x'.repeat(1_000_000)) : deep(depth - 1))
  const before = Error.stackTraceLimit
  Error.stackTraceLimit = 500
  const stack = stackOf(deep(400)) ?? ''
  Error.stackTraceLimit = before
  expect(Buffer.byteLength(stack)).toBeLessThanOrEqual(4_096)
  expect(stack.split('\n').length).toBeGreaterThan(10)
})

test.each([['a text'], [undefined], [{ message: 'no stack' }], [Object.assign(new Error('x'), { stack: 5 })]])(
  'K-21 what has no stack keeps none: %o',
  (thrown) => {
    expect(stackOf(thrown)).toBeUndefined()
  },
)
