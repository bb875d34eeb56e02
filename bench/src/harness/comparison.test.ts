import { describe, expect, test } from 'vitest'
import { bestRival, median, rotated } from './comparison.js'

describe('median', () => {
  test.each([
    { values: [], middle: null },
    { values: [7], middle: 7 },
    { values: [10, 2, 9], middle: 9 },
    { values: [4, 1, 3, 2], middle: 2.5 },
  ])('of $values is $middle', ({ values, middle }) => {
    expect(median(values)).toBe(middle)
  })

  test('leaves its argument in order', () => {
    const values = [3, 1, 2]
    median(values)
    expect(values).toEqual([3, 1, 2])
  })
})

describe('the best rival', () => {
  const ours = { role: 'holdfast', value: 100 } as const
  const ceiling = { role: 'ceiling', value: 90 } as const
  const slow = { role: 'peer', value: 30 } as const
  const fast = { role: 'peer', value: 60 } as const

  test('is the fastest peer, though a ceiling is higher', () => {
    expect(bestRival([ours, slow, ceiling, fast])).toBe(fast)
  })
  test('is the highest ceiling where no peer takes part', () => {
    expect(bestRival([{ role: 'ceiling', value: 80 }, ours, ceiling])).toBe(ceiling)
  })
  test('is the one with the smallest value where less is better', () => {
    expect(bestRival([ours, slow, ceiling, fast], 'lower')).toBe(slow)
  })
  test('is the baseline where one is marked, also our own', () => {
    const baseline = { ...ours, value: 1, baseline: true }
    expect(bestRival([ours, fast, baseline])).toBe(baseline)
  })
  test('is never ourselves otherwise', () => {
    expect(bestRival([ours])).toBeUndefined()
  })
})

test('every round begins with another system and has all of them', () => {
  const orders = [0, 1, 2, 3].map((round) => rotated(['a', 'b', 'c'], round).join(''))
  expect(orders).toEqual(['abc', 'bca', 'cab', 'abc'])
  expect(rotated([], 2)).toEqual([])
})
