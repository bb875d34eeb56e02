import assert from 'node:assert'
import { crashTest } from '@holdfast/testing'
import { isLongRun, longOr } from '@holdfast/testing/internal'
import { expect, test } from 'vitest'
import { ledgerBank, ledgerTable } from './ledger-bank.js'
import { paymentVia } from './payment.js'

/** Here it is only started and responded to: its code runs in the workers. */
const Payment = paymentVia(ledgerBank({ query: () => assert.fail('the test itself calls no bank') }))

test('X-02 workers that are processes of their own are killed by SIGKILL at every step', async () => {
  const report = await crashTest({
    worker: new URL('../../dist/testing/crash-worker-process.js', import.meta.url),
    prepare: ledgerTable,
    register: [Payment],
    start: (hf) => hf.start(Payment, { payment: 'PAY-1', cents: 25_000 }, { key: 'PAY-1', immediate: false }),
    respond: (hf, { id }) => [
      () => hf.process(Payment, id).respond('approved', { by: 'ann' }, { responseId: 'webhook 1' }),
    ],
    async invariant({ hf, sql, subject, killed }) {
      const { status } = await hf.process(Payment, subject.id).get()
      assert.equal(status, 'COMPLETED')
      const ledger = await sql<{ what: string; calls: number }>('select what, calls from ledger order by what')
      assert.deepEqual(
        ledger.map(({ what }) => what),
        ['booking', 'submission'],
      )
      for (const { calls } of ledger) assert.ok(calls <= (killed ? 2 : 1), 'called again only after a kill')
    },
    kills: longOr(1_000, 2),
    timeout: '60s',
  })
  // All but the two that learn the points, in the right order and in a mixed one.
  expect(report.kills).toBe(report.runs - 2)
  if (isLongRun)
    expect(report.killPoints).toEqual(expect.arrayContaining(['before processes.write#1', 'after processes.write#2']))
}, 300_000)
