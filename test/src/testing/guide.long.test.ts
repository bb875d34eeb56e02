import assert from 'node:assert'
import { crashTest } from '@holdfast/testing'
import { expect, test } from 'vitest'
import { honestBank } from './honest-bank.js'
import { paymentVia } from './payment.js'

test('X-02 wherever a worker is killed, the money is booked once and submitted once', async () => {
  const report = await crashTest({
    world: honestBank,
    register: (bank) => [paymentVia(bank)],
    start: (hf, bank) => hf.start(paymentVia(bank), { payment: 'PAY-1', cents: 25_000 }, { key: 'PAY-1' }),
    respond: (hf, { id }, bank) => [
      () => hf.process(paymentVia(bank), id).respond('approved', { by: 'ann' }, { responseId: 'webhook 1' }),
    ],
    invariant: ({ world }) => {
      assert.deepEqual([...world.booked.values()], [25_000])
      assert.equal(world.submitted.size, 1)
    },
  })
  expect(report.kills).toBeGreaterThan(0)
}, 300_000)
