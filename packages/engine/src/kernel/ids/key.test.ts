import { describe, expect, it } from 'vitest'
import { checkKey } from './key.js'

describe('checkKey', () => {
  it.each(['PAY-123', ' ', '😀', 'é'.repeat(512), '0190163d8694739baea5966c26f8ad91'])('accepts %j', (key) => {
    expect(checkKey('start', key)).toBe(key)
  })

  it.each([
    ['', 'start: the key must not be empty'],
    ['x'.repeat(513), 'start: the key must have at most 512 characters, not 513'],
    ['a\u0000', 'start: the key contains the character \\u0000, which PostgreSQL cannot hold'],
    ['a\ud83d', 'start: the key contains half of a surrogate pair, which PostgreSQL cannot hold'],
    [42, 'start: the key must be a text, not 42'],
    [
      '0190163D-8694-739B-AEA5-966C26F8AD91',
      "start: the key '0190163D-8694-739B-AEA5-966C26F8AD91' looks like a UUID and would be taken for an id; give it as the id",
    ],
  ])('refuses %j', (key, message) => {
    expect(() => checkKey('start', key)).toThrow(expect.objectContaining({ code: 'HF_INVALID_KEY', message }))
  })
})
