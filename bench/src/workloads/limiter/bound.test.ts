import { expect, test } from 'vitest'
import { mostInASecond, mostOverBound, percentUsed } from './bound.js'

test.each([
  ['a burst and one each 10 ms', [0, 0, 10, 20], 0],
  ['out of order', [20, 0, 10, 0], 0],
  ['one too many at once', [0, 0, 0], 1],
  ['too fast later', [0, 100, 105, 110, 115], 1],
])('%s', (_, grants, over) => {
  expect(mostOverBound(grants, 100, 2)).toBe(over)
})

test('reports the share of the limit that was used, and the most slots in one second', () => {
  const steady = Array.from({ length: 200 }, (_, nth) => nth * 10)
  expect(percentUsed(steady, 100, 1)).toBeCloseTo(100, 1)
  expect(percentUsed(steady, 200, 1)).toBeCloseTo(50, 0)
  expect(mostInASecond(steady)).toBe(100)
})
