import { BusinessError, defineProcess, PermanentError, TransientError } from 'holdfast'
import { z } from 'zod'
import type { Notes } from '../notes.js'

/** What becomes of an order if nothing disturbs it, and nothing may. */
export const fates = {
  good: 'COMPLETED',
  refused: 'COMPENSATED',
  broken: 'WAITING_FOR_TSQ',
  unanswered: 'FAILED',
} as const

export type Fate = keyof typeof fates

export function ordersOf(domain: string, { called, undone }: Notes) {
  return defineProcess(domain, 'Order', {
    state: z.object({
      fate: z.enum(['good', 'refused', 'broken', 'unanswered']),
      payments: z.number().default(0),
      parcels: z.array(z.number()).default([]),
    }),
    responses: {
      paid: {
        data: z.object({ amount: z.number() }),
        apply: (state) => {
          state.payments += 1
        },
      },
      shipped: {
        data: z.object({ parcel: z.number() }),
        apply: (state, { parcel }) => void state.parcels.push(parcel),
      },
    },
    async execute(ctx, state) {
      await ctx.step('reserve', () => called(ctx.id, 'reserve'), { compensate: () => undone(ctx.id, 'reserve') })
      const timeout = state.fate === 'unanswered' ? '1s' : '1h'
      await ctx.wait('payment', () => state.payments > 0, { timeout, onTimeout: 'fail' })
      await ctx.transaction('book', async (tx) => {
        await tx.query('insert into booking values ($1, $2)', [ctx.id, 'order'])
      })
      const [parcel] = await Promise.all([
        ctx.event('shipment', 'shipped'),
        ctx.step(
          'invoice',
          async ({ attempt }) => {
            await called(ctx.id, 'invoice', ['reserve', 'payment', 'book'])
            if (attempt === 1) throw new TransientError('not yet')
          },
          { retry: { maxAttempts: 2, delay: '50ms' } },
        ),
      ])
      if (state.fate === 'refused') throw new BusinessError('refused', { code: 'REFUSED' })
      if (state.fate === 'broken') throw new PermanentError('broken', { code: 'BROKEN' })
      await ctx.step('thank', () => called(ctx.id, 'thank', ['shipment', 'invoice']))
      return parcel
    },
  })
}
