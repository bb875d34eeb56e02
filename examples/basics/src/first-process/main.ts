import { startEmbedded } from '@holdfast/embedded'
import { defineProcess, holdfast } from 'holdfast'
import { z } from 'zod'

const Payment = defineProcess('payments', 'Payment', {
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
    const booked = await ctx.step(
      'bookRisk',
      // The key is the same however often this is called: the risk service books once.
      async ({ idempotencyKey }) => {
        console.log(`booking ${state.cents} cents under ${idempotencyKey.slice(-9)}`)
        return { reference: `RISK-${state.payment}` }
      },
      { retry: { maxAttempts: 3, delay: '5s' } },
    )
    // For up to two hours. Meanwhile there is a row in the database, and nothing in memory.
    await ctx.wait('approval', () => state.approvedBy !== undefined, { timeout: '2h' })
    const receipt = await ctx.step('submit', async () => `receipt for ${state.payment}`)
    return { receipt, booked: booked.reference, approvedBy: state.approvedBy }
  },
})

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })
hf.register(Payment)
await hf.run({ concurrency: 50 })

// Runs here until it completes or has to wait. The key is your own name for it: a second start returns the same payment.
const payment = await hf.start(Payment, { payment: 'PAY-1', cents: 25_000 }, { key: 'PAY-1' })
console.log((await payment.get()).status)
console.log(
  `started again: ${(await hf.start(Payment, { payment: 'PAY-1', cents: 25_000 }, { key: 'PAY-1' })).created}`,
)

const { waitingFor } = await payment.get()
console.log(`waits for ${waitingFor}`)

// Anywhere else, the key is enough: hf.process(Payment, 'PAY-1') is the same payment.
await hf.process(Payment, 'PAY-1').respond('approved', { by: 'ann' })
const { receipt, booked, approvedBy } = await payment.result()
console.log(`${receipt}, booked as ${booked}, approved by ${approvedBy}`)

console.log((await payment.get()).status)
for (const { type, event, name, status } of await payment.history()) {
  console.log(`  ${[type === 'EVENT' ? event : type, name, status].filter(Boolean).join(' ')}`)
}

await hf.close()
await database.stop()
