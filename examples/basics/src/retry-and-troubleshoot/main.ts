import { setTimeout as sleep } from 'node:timers/promises'
import { startEmbedded } from '@holdfast/embedded'
import { defineCommand, holdfast, TransientError } from 'holdfast'
import { z } from 'zod'

const Transfer = defineCommand('payments', 'Transfer', {
  data: z.object({ to: z.string(), cents: z.int().positive() }),
  retry: { maxAttempts: 3, delays: ['50ms', '100ms'] }, // short for the example
})

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })

hf.handle(Transfer, async ({ to }, ctx) => {
  if (ctx.attempt === 1) throw new TransientError('the bank is busy')
  if (!to.startsWith('DE')) throw new TransientError(`no route to "${to}"`, { code: 'NO_ROUTE' })
})
await hf.run()

const good = await hf.send(Transfer, { to: 'DE-1', cents: 100 })
await good.result()
const { attempts } = await good.get()
const history = await good.history()
console.log(`done with attempt ${attempts}: ${history.map(({ event }) => event).join(', ')}`)

const mistyped = await hf.send(Transfer, { to: 'ED-2', cents: 200 })
await hf.sendMany(Transfer, [{ data: { to: 'FR-3', cents: 300 } }, { data: { to: 'FR-4', cents: 400 } }])
while ((await hf.trouble.count({ domain: 'payments' })) < 3) await sleep(20)

for (const { count, code } of await hf.trouble.groups({ domain: 'payments' })) {
  console.log(`${count} in troubleshooting with ${code}`)
}

await mistyped.retry({ actor: 'ann', reason: 'two letters were swapped' }, { data: { to: 'DE-2', cents: 200 } })
await mistyped.result()

const abroad = await hf.trouble.cancel({ type: 'Transfer' }, { actor: 'bob', reason: 'we do not pay abroad' })
console.log(`cancelled: ${abroad.map(({ outcome }) => outcome).join(', ')}`)

for (const id of [mistyped.id, ...abroad.map((result) => result.id)]) {
  const transfer = hf.command(Transfer, id)
  const { status } = await transfer.get()
  const act = (await transfer.history()).find(({ actor }) => actor !== null)
  console.log(`${status}: ${act?.event} by ${act?.actor}, ${act?.reason}`)
}

await hf.close()
await database.stop()
