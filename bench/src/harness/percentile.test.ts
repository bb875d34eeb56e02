import { expect, test } from 'vitest'
import { percentile } from './percentile.js'

const hundred = Array.from({ length: 100 }, (_, place) => 100 - place)

test.each([
  { values: hundred, part: 0.5, is: 50 },
  { values: hundred, part: 0.99, is: 99 },
  { values: hundred, part: 1, is: 100 },
  { values: hundred, part: 0, is: 1 },
  { values: [10, 9], part: 0.5, is: 9 },
  { values: [7], part: 0.95, is: 7 },
  { values: [], part: 0.5, is: Number.NaN },
])('percentile $part of $values.length values is $is', ({ values, part, is }) => {
  expect(percentile(values, part)).toBe(is)
})
