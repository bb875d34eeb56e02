import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Currency, currencies, currencyCodes } from './currency.js'
import { amountProblem, convert, isAtLeast, money } from './money.js'

test.each<[string, Currency, RegExp | undefined]>([
  ['10.10', 'EUR', undefined],
  ['10', 'EUR', undefined],
  ['10.105', 'EUR', /has 3 digits after the point, and EUR has 2/],
  ['10.105', 'BHD', undefined],
  ['10.1', 'JPY', /has 1 digits/],
  ['0', 'EUR', /greater than 0/],
  ['0.00', 'EUR', /greater than 0/],
  ['-5.00', 'EUR', /greater than 0/],
  ['1e3', 'EUR', /decimal number/],
  ['', 'EUR', /decimal number/],
  ['10,10', 'EUR', /decimal number/],
])('A-01 %s %s: %s', (amount, currency, problem) => {
  if (problem) expect(amountProblem(amount, currency)).toMatch(problem)
  else expect(amountProblem(amount, currency)).toBeUndefined()
})

test('A-01 amounts keep the digits of their currency', () => {
  expect(money('10.1', 'EUR')).toEqual({ amount: '10.10', currency: 'EUR' })
  expect(money('10.10', 'BHD').amount).toBe('10.100')
  expect(money('1000', 'JPY').amount).toBe('1000')
})

test('A-01 conversion is exact and rounds half to even', () => {
  expect(convert(money('0.05', 'EUR'), '0.5', 'USD').amount).toBe('0.02')
  expect(convert(money('0.15', 'EUR'), '0.5', 'USD').amount).toBe('0.08')
  expect(convert(money('100.00', 'EUR'), '162.375', 'JPY').amount).toBe('16238')
  expect(convert(money('999999999999999.99', 'EUR'), '1', 'USD').amount).toBe('999999999999999.99')
})

test('A-01 an accepted amount is shown as it was entered, except for trailing zeros', () => {
  const amounts = fc.tuple(fc.bigInt({ min: 1n, max: 999_999_999_999_999n }), fc.constantFrom(...currencyCodes))
  fc.assert(
    fc.property(amounts, ([units, currency]) => {
      const digits = currencies[currency]
      const text = units.toString().padStart(digits + 1, '0')
      const amount = digits === 0 ? text : `${text.slice(0, -digits)}.${text.slice(-digits)}`
      expect(amountProblem(amount, currency)).toBeUndefined()
      expect(money(amount, currency).amount).toBe(amount)
    }),
  )
})

test('A-01 amounts are compared as numbers', () => {
  expect(isAtLeast(money('250000.00', 'EUR'), '250000')).toBe(true)
  expect(isAtLeast(money('99999.99', 'EUR'), '250000')).toBe(false)
})
