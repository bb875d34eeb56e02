import { expect, test } from 'vitest'
import { derivedId } from './derived-id.js'

test('K-24 an id that is derived from the same parts is the same, and from any other parts another', () => {
  expect(derivedId('command', 'a', 1)).toBe(derivedId('command', 'a', 1))
  const ids = [
    derivedId('command', 'a', 1),
    derivedId('child', 'a', 1),
    derivedId('command', 'a', '1'),
    derivedId('command', 'a,1'),
    derivedId('command', 'a 1'),
    derivedId('command a', 1),
    derivedId('command', 'a', 1, 1),
  ]
  expect(new Set(ids).size).toBe(ids.length)
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
})
