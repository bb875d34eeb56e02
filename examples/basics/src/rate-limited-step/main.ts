import { startEmbedded } from '@holdfast/embedded'
import { defineProcess, holdfast } from 'holdfast'
import { z } from 'zod'

const Scoring = defineProcess('risk', 'Scoring', {
  state: z.object({ payment: z.string() }),
  async execute(ctx, { payment }) {
    return ctx.step('score', async () => payment.length, {
      // Across all workers and machines. Without a slot within maxWait the process is suspended and tries again later; that is
      // no failed attempt.
      rateLimit: { key: 'risk_api', maxWait: '100ms' },
    })
  },
})

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })
await hf.limits.define('risk_api', { ticketsPerSecond: 20, burst: 2 })
hf.register(Scoring)
await hf.run({ concurrency: 20 })

const began = performance.now()
const payments = Array.from({ length: 8 }, (_, place) => ({ input: { payment: 'x'.repeat(place) } }))
const started = await hf.startMany(Scoring, payments)
const scores = await Promise.all(started.map(({ id }) => hf.process(Scoring, id).result()))
console.log(`scores ${scores.join(', ')}`)
console.log(`2 at once and 20 per second take 300 ms or more: ${performance.now() - began >= 300}`)

await hf.close()
await database.stop()
