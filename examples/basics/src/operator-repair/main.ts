import { startEmbedded } from '@holdfast/embedded'
import { defineProcess, holdfast, PermanentError } from 'holdfast'
import { z } from 'zod'

const Payout = defineProcess('payouts', 'Payout', {
  state: z.object({ iban: z.string(), cents: z.int() }),
  responses: {
    // The correction of an operator is a response: it has a schema, and is on record.
    corrected: {
      data: z.object({ iban: z.string() }),
      apply: (state, { iban }) => {
        state.iban = iban
      },
    },
  },
  async execute(ctx, state) {
    await ctx.step('hold', async () => console.log(`${state.cents} cents held`))
    return ctx.step('pay', async () => {
      if (state.iban === 'ED-1') throw new PermanentError(`no such account: ${state.iban}`, { code: 'NO_ACCOUNT' })
      return `paid to ${state.iban}`
    })
  },
})

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })
hf.register(Payout)
await hf.run()

const payout = await hf.start(Payout, { iban: 'ED-1', cents: 500 })
const { status, error, waitingFor } = await payout.get()
console.log(status)
console.log(`${error?.code}: ${error?.message}`)
console.log(waitingFor ?? 'it waits for a person')

for (const { type, step, message } of (await hf.trouble.list({ model: 'processes', domain: 'payouts', limit: 20 }))
  .items) {
  console.log(`${type} at ${step}: ${message}`)
}

const ann = { actor: 'ann', reason: 'two letters were swapped' }
await payout.retry(ann, { response: { name: 'corrected', data: { iban: 'DE-1' } } })
// The money was held once: a retry continues at the step that failed.
console.log(await payout.result())

for (const { event, actor, reason } of await hf.auditTrail({ id: payout.id })) {
  if (actor !== null) console.log(`${event} by ${actor}: ${reason}`)
}

await hf.close()
await database.stop()
