import { startEmbedded } from '@holdfast/embedded'
import { defineDispatch, defineProcess, holdfast, processTarget } from 'holdfast'
import { z } from 'zod'

const paid: string[] = []
const SettlePayment = defineProcess('payments', 'SettlePayment', {
  state: z.object({ payment: z.string() }),
  async execute(ctx, { payment }) {
    await ctx.step('transfer', () => void paid.push(payment))
  },
})

const Settlement = defineDispatch('payments', 'Settlement', {
  target: processTarget(SettlePayment),
  // Items are released up to ten minutes ahead of their time, and still start at their time.
  settings: { batchSize: 100, dispatchInterval: '100ms', preStartBuffer: '10m', jitterWindow: 0 },
})

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })
const depth = async () => {
  const { READY, DISPATCHED, COMPLETED } = await hf.dispatch.depth(Settlement)
  return `${READY} ready, ${DISPATCHED} dispatched, ${COMPLETED} completed`
}
const until = async (isSo: () => Promise<boolean>) => {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 50))
}

hf.register(SettlePayment)
hf.register(Settlement)
await hf.run()

const soon = new Date(Date.now() + 5_000)
const payments = Array.from({ length: 250 }, (_, n) => `PAY-${n}`)
await hf.schedule(
  Settlement,
  payments.map((payment) => ({ key: payment, context: { payment }, startAt: soon })),
)
await until(async () => (await hf.dispatch.depth(Settlement)).DISPATCHED === 250)
console.log(await depth())

// The bank is on the phone: stop everything now. Executions that were released ahead and have not begun are held back too.
await hf.dispatch.pause(Settlement, { actor: 'ann', reason: 'the bank is on the phone' })
await until(async () => Date.now() > soon.getTime() + 500)
console.log(`half a second after the time: ${paid.length} paid; ${await depth()}`)

await hf.dispatch.resume(Settlement, { actor: 'ann', reason: 'a false alarm' })
await until(async () => (await hf.dispatch.depth(Settlement)).COMPLETED === 250)
console.log(`${paid.length} paid, each once: ${new Set(paid).size === 250}`)
for (const { event, actor, reason, after } of await hf.auditTrail({ name: Settlement.name })) {
  if (event === 'CONFIGURED' && actor === 'ann') console.log(`${JSON.stringify(after)} by ${actor}: ${reason}`)
}

await hf.close()
await database.stop()
