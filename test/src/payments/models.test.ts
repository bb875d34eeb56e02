import type { ExecutionModel } from '@holdfast/example-payments'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTestPayments, type TestPayments } from './test-payments.js'

let app: TestPayments
beforeAll(async () => {
  app = await openTestPayments()
})
afterAll(() => app.close())

const order = {
  debitAccount: 'EUR-ann',
  creditAccount: 'EUR-bob',
  amount: '10.10',
  debitCurrency: 'EUR',
  creditCurrency: 'EUR',
}

describe.each<ExecutionModel>(['PROCESS_STEP', 'STEP_BASED'])('A-02 %s', (model) => {
  test('a payment within a currency is completed', async () => {
    const { payment } = await app.submit({ ...order, model })
    expect(await app.ended(payment.id)).toBe('COMPLETE')
    expect(await app.standing(payment.id)).toMatchObject({ payment: { creditAmount: '10.10' }, error: null })
    expect(await app.books()).toMatchObject({ balanced: true, faults: [] })
  })
})
