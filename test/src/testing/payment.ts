import { BusinessError, defineProcess } from 'holdfast'
import { z } from 'zod'

/** What the payment needs from outside; production has an HTTP client here. */
export interface Bank {
  book(payment: string, cents: number, idempotencyKey: string): Promise<{ reference: string }>
  unbook(reference: string): Promise<void>
  submit(payment: string, idempotencyKey: string): Promise<string>
}

export const paymentVia = (bank: Bank) =>
  defineProcess('payments', 'Payment', {
    state: z.object({ payment: z.string(), cents: z.int().positive(), approvedBy: z.string().optional() }),
    responses: {
      approved: {
        data: z.object({ by: z.string() }),
        apply: (state, { by }) => {
          state.approvedBy = by
        },
      },
    },
    async execute(ctx, state) {
      await ctx.step('bookRisk', ({ idempotencyKey }) => bank.book(state.payment, state.cents, idempotencyKey), {
        retry: { maxAttempts: 3, delay: '5s' },
        // Nobody may know whether it was booked: then the bank finds the booking by its key.
        compensate: (booked) => bank.unbook(booked?.reference ?? `RISK-${state.payment}`),
      })
      await ctx.wait('approval', () => state.approvedBy !== undefined, { timeout: '2h', onTimeout: 'compensate' })
      const receipt = await ctx.step('submit', ({ idempotencyKey }) => bank.submit(state.payment, idempotencyKey))
      if (receipt === '') throw new BusinessError('the bank gave no receipt', { code: 'NO_RECEIPT' })
      return receipt
    },
  })
