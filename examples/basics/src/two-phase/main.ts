import { startEmbedded } from '@holdfast/embedded'
import { defineDispatch, defineProcess, holdfast, processTarget } from 'holdfast'
import { z } from 'zod'

// Phase B: the execution at four o'clock. It does not depend on dispatch: its state is the context of phase A.
const SettlePayment = defineProcess('payments', 'SettlePayment', {
  state: z.object({ payment: z.string(), cents: z.number(), account: z.string() }),
  async execute(ctx, { payment, cents, account }) {
    await ctx.step('transfer', () => console.log(`${payment}: ${cents} cents to ${account}`))
  },
})

const Settlement = defineDispatch('payments', 'Settlement', {
  target: processTarget(SettlePayment),
  settings: { batchSize: 1, dispatchInterval: '200ms', jitterWindow: 0 },
})

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })

// Phase A: validate and enrich, then schedule. Until four o'clock the item is two rows.
const fourOClock = new Date(Date.now() + 1_000)
const payments = ['PAY-1', 'PAY-2', 'PAY-3', 'PAY-4', 'PAY-5'].map((payment) => ({
  key: payment,
  context: { payment, cents: 500, account: 'DE-1' },
  startAt: fourOClock,
}))
const { created } = await hf.schedule(Settlement, payments)
console.log(`${created} scheduled`)

// Again, as after a double click: the same items are scheduled once.
const { existing } = await hf.schedule(Settlement, payments)
console.log(`${existing} were there already`)

const plan = await hf.dispatch.plan(Settlement)
console.log(`${plan.ready} ready, ${plan.rate.configuredPerSecond} per second`)

hf.register(SettlePayment)
hf.register(Settlement)
await hf.run({ concurrency: 1 })

for (;;) {
  const { COMPLETED } = await hf.dispatch.depth(Settlement)
  if (COMPLETED === 5) break
  await new Promise((resolve) => setTimeout(resolve, 50))
}
const item = await hf.item(Settlement, 'PAY-5').get()
console.log(`${item.executionId} ${item.status}, not before its time: ${(item.dispatchedAt ?? 0) >= fourOClock}`)
const batches = (await hf.auditTrail({ name: Settlement.name })).filter(({ event }) => event === 'BATCH')
console.log(`${batches.length} batches`)

await hf.close()
await database.stop()
