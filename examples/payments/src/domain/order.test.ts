import { expect, test } from 'vitest'
import { checkOrder, OrderInput, parseInput, SubmissionInput } from './order.js'
import { InvalidInput } from './problem.js'

const circumstances = {
  now: new Date('2026-11-15T10:00:00Z'),
  accounts: new Map([
    ['A-EUR', 'EUR'],
    ['B-EUR', 'EUR'],
    ['C-USD', 'USD'],
  ]),
}
const good = {
  debitAccount: 'A-EUR',
  creditAccount: 'B-EUR',
  amount: '10.1',
  debitCurrency: 'EUR',
  creditCurrency: 'EUR',
}

function problemsOf(input: object): string[] {
  try {
    checkOrder(parseInput(OrderInput, input), circumstances)
    return []
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    return error.problems.map(({ field, detail }) => `${field} ${detail}`)
  }
}

test('A-01 an order has its amount with all digits, today as value date, and a cut-off four hours ahead', () => {
  expect(checkOrder(parseInput(OrderInput, good), circumstances)).toEqual({
    debitAccount: 'A-EUR',
    debit: { amount: '10.10', currency: 'EUR' },
    creditAccount: 'B-EUR',
    creditCurrency: 'EUR',
    valueDate: '2026-11-15',
    cutoffAt: new Date('2026-11-15T14:00:00Z'),
  })
})

test.each<[object, string[]]>([
  [{}, []],
  [{ debitCurrency: 'XXX' }, ['debitCurrency must be one of BHD, CHF, EUR, GBP, JPY, USD']],
  [{ amount: '-5.00' }, ['amount must be greater than 0']],
  [{ amount: '5.001' }, ['amount has 3 digits after the point, and EUR has 2']],
  [{ amount: 5 }, ['amount must be a decimal number as text, such as "10.10"']],
  [{ creditAccount: 'A-EUR' }, ['creditAccount must be another account than the debit account']],
  [{ creditAccount: 'X' }, ['creditAccount is not an account that we know']],
  [{ creditAccount: 'C-USD' }, ['creditAccount is held in USD, not in EUR']],
  [{ creditAccount: 'C-USD', creditCurrency: 'USD' }, []],
  [{ valueDate: '2026-11-14' }, ['valueDate must not lie in the past']],
  [{ valueDate: '14.11.2026' }, ['valueDate must be a date, such as "2026-11-30"']],
  [{ cutoffAt: '2026-11-15T09:00:00Z' }, ['cutoffAt must lie ahead']],
  [{ colour: 'red' }, ['colour is unknown']],
  [{ amount: '0', valueDate: '2020-01-01' }, ['amount must be greater than 0', 'valueDate must not lie in the past']],
])('A-01 %j', (change, problems) => {
  expect(problemsOf({ ...good, ...change })).toEqual(problems)
})

test('A-05 an unknown execution model is named', () => {
  expect(() => parseInput(SubmissionInput, { ...good, model: 'BY_HAND' })).toThrow(/model must be one of/)
  expect(() => parseInput(SubmissionInput, 'text')).toThrow(InvalidInput)
})
