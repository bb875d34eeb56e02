import { startEmbedded } from '@holdfast/embedded'
import { defineProcess, holdfast } from 'holdfast'
import { z } from 'zod'

const Payment = defineProcess('mine', 'Payment', {
  state: z.object({ payment: z.string(), approvedBy: z.string().optional() }),
  responses: {
    approved: {
      data: z.object({ by: z.string() }),
      apply: (state, { by }) => {
        state.approvedBy = by
      },
    },
  },
  async execute(ctx, state) {
    const risk = await ctx.step(
      'bookRisk',
      async ({ idempotencyKey }) => {
        console.log('booking the risk')
        return `RISK-${state.payment}-${idempotencyKey.slice(0, 4)}`
      },
      { retry: { maxAttempts: 3, delay: '5s' }, compensate: (booked) => console.log(`unwinding ${booked}`) },
    )
    await ctx.wait('approval', () => state.approvedBy !== undefined, { timeout: '2h', onTimeout: 'compensate' })
    // These rows and the record of the step are committed together: exactly once.
    return ctx.transaction('settle', async (tx) => {
      await tx.query('create table if not exists settled (payment text primary key, risk text not null)')
      await tx.query('insert into settled values ($1, $2)', [state.payment, risk])
      return `settled, booked as ${risk}, approved by ${state.approvedBy}`
    })
  },
})

const database = await startEmbedded() // a real PostgreSQL; its data stays in .holdfast/
const hf = await holdfast({ connectionString: database.connectionString })
hf.register(Payment)
await hf.run()

// The key is your own name for it: a second start returns the same payment.
const payment = await hf.start(Payment, { payment: 'PAY-1' }, { key: 'PAY-1' })
console.log((await payment.why()).text)

const approver = process.argv[2]
if (approver) {
  await payment.respond('approved', { by: approver })
  console.log(await payment.result())
}

await hf.close()
await database.stop()
