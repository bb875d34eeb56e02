import { describe, expect, it } from 'vitest'
import { checkName, splitName } from './name.js'

describe('K-24 names', () => {
  it.each(['a', 'book risk', 'L1→L4', 'é'.repeat(200), '😀', '@own', 'a.b:c'])('accepts %j', (name) => {
    expect(checkName('step', 'name', name)).toBe(name)
  })

  it.each([
    ['', 'must not be empty'],
    ['x'.repeat(201), 'must have at most 200 characters, not 201'],
    ['a\u0000', 'contains the character \\u0000, which PostgreSQL cannot hold'],
    ['a\ud83d', 'contains half of a surrogate pair, which PostgreSQL cannot hold'],
    ['a#2', "must not contain `#` or `/`: 'a#2'"],
    ['a/compensate', "must not contain `#` or `/`: 'a/compensate'"],
    [42, 'must be a text, not 42'],
    [undefined, 'must be a text, not undefined'],
  ])('refuses %j', (name, problem) => {
    expect(() => checkName('step', 'name', name)).toThrow(
      expect.objectContaining({ code: 'HF_INVALID_OPTION', message: expect.stringContaining(problem) }),
    )
  })
})

it('U-01 a full name is split into domain and type', () => {
  expect(splitName('payments/Payment')).toEqual({ domain: 'payments', type: 'Payment' })
})
