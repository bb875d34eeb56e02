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

const { id: good } = await hf.send(Transfer, { to: 'DE-1', cents: 100 })
await hf.command(Transfer, good).result()
const { attempts, audit } = await hf.command(Transfer, good).get()
console.log(`done with attempt ${attempts}: ${audit.map(({ event }) => event).join(', ')}`)

const { id: mistyped } = await hf.send(Transfer, { to: 'ED-2', cents: 200 })
await hf.sendMany(Transfer, [{ data: { to: 'FR-3', cents: 300 } }, { data: { to: 'FR-4', cents: 400 } }])
while ((await hf.troubleshooting.count({ domain: 'payments' })) < 3) await sleep(20)

for (const { count, code, example } of await hf.troubleshooting.groups({ domain: 'payments' })) {
  console.log(`${count} in troubleshooting with ${code}, such as: ${example}`)
}

await hf
  .command(Transfer, mistyped)
  .retry({ actor: 'ann', reason: 'two letters were swapped' }, { data: { to: 'DE-2', cents: 200 } })
await hf.command(Transfer, mistyped).result()

const left = await hf.troubleshooting.list({ domain: 'payments', type: 'Transfer' })
const ids = left.map(({ commandId }) => commandId)
const answers = await hf.troubleshooting.cancelMany(Transfer, ids, { actor: 'bob', reason: 'we do not pay abroad' })
console.log(`cancelled: ${answers.map(({ outcome }) => outcome).join(', ')}`)

for (const id of [mistyped, ...ids]) {
  const command = await hf.command(Transfer, id).get()
  const act = command.audit.find(({ actor }) => actor !== null)
  console.log(`${command.status}: ${act?.event} by ${act?.actor}, ${act?.reason}`)
}

await hf.close()
await database.stop()
