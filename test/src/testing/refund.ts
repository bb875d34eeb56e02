import type { Effects } from '@holdfast/testing'
import { defineProcess } from 'holdfast'
import { z } from 'zod'

/** Takes the money back from the merchant and gives it to the customer; `bank` and `ledger` are simulated services. */
export const refundVia = ({ bank, ledger }: { readonly bank: Effects; readonly ledger: Effects }) =>
  defineProcess('shop', 'Refund', {
    state: z.object({ refund: z.string() }),
    async execute(ctx) {
      const execution = ctx.id
      await ctx.step('debit', (call) => ledger.perform({ execution, name: 'debit', ...call }), {
        compensate: (_, call) => ledger.undo({ execution, name: 'debit', ...call }),
        retry: { maxAttempts: 5, delay: '100ms' },
        timeout: '50ms',
      })
      await ctx.step('pay', (call) => bank.perform({ execution, name: 'pay', once: true, ...call }), {
        inquire: (call) => bank.inquire({ execution, name: 'pay', ...call }),
        compensate: (_, call) => bank.undo({ execution, name: 'pay', ...call }),
        atMostOnce: true,
        timeout: '50ms',
      })
    },
  })
