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
    const reference = await ctx.step(
      'bookRisk',
      async ({ idempotencyKey }) => {
        console.log('booking the risk')
        return `RISK-${state.payment}-${idempotencyKey.slice(0, 4)}`
      },
      { compensate: (booked) => console.log(`unwinding ${booked}`) },
    )
    await ctx.wait('approval', () => state.approvedBy !== undefined, { timeout: '2h' })
    return `paid, booked as ${reference}, approved by ${state.approvedBy}`
  },
})

const database = await startEmbedded() // a real PostgreSQL; its data stays in .holdfast/
const hf = await holdfast({ connectionString: database.connectionString })
hf.register(Payment)
await hf.run()

// The key is your own name for it: started twice is started once.
const payment = await hf.start(Payment, { payment: 'PAY-1' }, { key: 'PAY-1' })
console.log(`PAY-1 is ${(await payment.get()).status}`)

const approver = process.argv[2]
if (approver) {
  await payment.respond('approved', { by: approver })
  console.log(await payment.result())
}

await hf.close()
await database.stop()
