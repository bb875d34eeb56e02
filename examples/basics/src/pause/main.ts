import { startEmbedded } from '@holdfast/embedded'
import { defineCommand, holdfast } from 'holdfast'
import { z } from 'zod'

const Transfer = defineCommand('payments', 'Transfer', { data: z.object({ to: z.string() }) })

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })
hf.handle(Transfer, ({ to }) => console.log(`transferred to ${to}`))
await hf.run()

await hf.pause({ domain: 'payments' }, { actor: 'ann', reason: 'the bank is down' })
const transfer = await hf.send(Transfer, { to: 'DE-1' })
const [pause] = await hf.pauses()
const { status } = await transfer.get()
console.log(`${status}: ${pause?.subject} is paused by ${pause?.actor}, ${pause?.reason}`)

await hf.resume({ domain: 'payments' }, { actor: 'bob', reason: 'the bank is back' })
await transfer.result()
for (const { event, actor, reason } of await hf.auditTrail({ name: 'domain:payments' })) {
  console.log(`${event} by ${actor}: ${reason}`)
}

await hf.close()
await database.stop()
