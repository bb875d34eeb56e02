import { waitFor } from '@holdfast/testing/internal'
import { defineProcess, holdfast } from 'holdfast'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { openTestPayments, type TestPayments } from './test-payments.js'

let app: TestPayments
beforeAll(async () => {
  app = await openTestPayments({ works: false })
})
afterAll(() => app.close())

const by = { actor: 'ann', reason: 'a test' }
const order = { debitAccount: 'EUR-ann', creditAccount: 'EUR-bob', debitCurrency: 'EUR', creditCurrency: 'EUR' }
const statusOf = async (id: string) => (await app.standing(id))?.payment.status

/** Lets a process end as it does when its worker dies right after the commit: no hook is called. */
async function endWithoutHooks(type: string, id: string) {
  const hf = await holdfast({ connectionString: app.connectionString, migrate: false, logger: false })
  const Same = defineProcess('payments', type, { state: z.any(), execute: async () => undefined })
  hf.register(Same)
  try {
    await hf.run({ poll: '20ms' })
    await waitFor('it has ended', async () => (await hf.process(Same, id).get()).status === 'CANCELLED')
  } finally {
    await hf.close()
  }
}

test('A-06 K-19 a payment whose worker died between the end of its process and the hook is ended all the same', async () => {
  const { payment } = await app.submit({ ...order, amount: '1.00', model: 'PROCESS_STEP' })
  await app.hf.process(app.definitions.Payment, payment.id).cancel(by, { compensate: true })
  await endWithoutHooks('Payment', payment.id)
  expect(await statusOf(payment.id)).toBe('ACCEPTED')
  expect(await app.endLeftBehind()).toBe(1)
  expect(await statusOf(payment.id)).toBe('CANCELLED')
  expect(await app.endLeftBehind()).toBe(0)
  expect(await app.books()).toMatchObject({ balanced: true })
})

test('A-06 K-19 a step-based payment that is cancelled before its first command was received is ended too', async () => {
  const { payment } = await app.submit({ ...order, amount: '2.00', model: 'STEP_BASED' })
  await app.hf.process(app.definitions.StepPayment, payment.id).cancel(by, { compensate: true })
  const worker = await app.hf.run({ poll: '20ms' })
  await waitFor('its process has ended', async () => (await app.standing(payment.id))?.process === 'CANCELLED')
  await worker.stop()
  await app.endLeftBehind()
  expect(await statusOf(payment.id)).toBe('CANCELLED')
  expect(await app.books()).toMatchObject({ balanced: true })
})

test('A-06 payments that have not begun, or wait for their time, are left alone', async () => {
  const { payment } = await app.submit({ ...order, amount: '3.00', model: 'PROCESS_STEP' })
  const executeAt = new Date(Date.now() + 600_000).toISOString()
  const scheduled = await app.submit({ ...order, amount: '4.00', model: 'PROCESS_STEP', executeAt })
  expect(await app.endLeftBehind()).toBe(0)
  expect([await statusOf(payment.id), await statusOf(scheduled.payment.id)]).toEqual(['ACCEPTED', 'SCHEDULED'])
})
