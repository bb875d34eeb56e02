import { startEmbedded } from '@holdfast/embedded'
import { defineCommand, HoldfastError, holdfast } from 'holdfast'
import { z } from 'zod'

const Score = defineCommand('risk', 'Score', { data: z.object({ payment: z.string() }) })

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })

await hf.limits.define('risk_api', { ticketsPerSecond: 20, burst: 2, description: 'calls of the risk service' })

// However many workers run this, on however many machines: 2 at once, then one every 50 ms.
hf.handle(Score, async ({ payment }) => {
  await hf.limits.acquire('risk_api', { maxWait: '10s' })
  return { score: payment.length }
})
await hf.run({ concurrency: 10 })

const began = performance.now()
const payments = ['A', 'B', 'C', 'D', 'E'].map((payment) => ({ data: { payment } }))
const sent = await hf.sendMany(Score, payments)
await Promise.all(sent.map(({ id }) => hf.command(Score, id).result()))
console.log(`5 calls took 150 ms or more: ${performance.now() - began >= 150}`)

// A slot that is later than `maxWait` is not taken.
await hf.limits.define('fax', { ticketsPerSecond: 1 / 60 })
console.log(`the first fax goes out: ${await hf.limits.tryAcquire('fax')}`)
console.log(`the second does: ${await hf.limits.tryAcquire('fax')}`)
try {
  await hf.limits.acquire('fax', { maxWait: '5s' })
} catch (error) {
  if (!(error instanceof HoldfastError)) throw error
  console.log(`${error.code}, to be tried again`)
}

// Changed while everything runs; it applies to the next call of any worker.
await hf.limits.set('fax', { ticketsPerSecond: 100, burst: 5 }, { actor: 'bob', reason: 'we have bought a new one' })
await hf.limits.acquire('fax', { maxWait: '5s' })
for (const { key, ticketsPerSecond, burst, reservedAhead } of await hf.limits.list()) {
  console.log(`${key}: ${ticketsPerSecond} per second, burst ${burst}, ${reservedAhead} waiting`)
}
for (const { event, actor, reason } of await hf.auditTrail({ name: 'rate_limit:fax' })) {
  console.log(actor === null ? `${event} by the service` : `${event} by ${actor}: ${reason}`)
}

await hf.close()
await database.stop()
