import { expect, test } from 'vitest'
import { figure } from './figure.js'

test.each([
  [33_018.4, '33,018'],
  [100, '100'],
  [2.8071, '2.81'],
  [0.83519, '0.835'],
])('%d is written %s', (value, written) => {
  expect(figure(value)).toBe(written)
})
