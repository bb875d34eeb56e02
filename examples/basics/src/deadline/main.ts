import { setTimeout as sleep } from 'node:timers/promises'
import { startEmbedded } from '@holdfast/embedded'
import { defineProcess, holdfast } from 'holdfast'
import { z } from 'zod'

const Transfer = defineProcess('payments', 'Transfer', {
  state: z.object({ payment: z.string(), confirmed: z.boolean().optional() }),
  responses: {
    confirmed: {
      data: z.object({}),
      apply: (state) => {
        state.confirmed = true
      },
    },
  },
  // By the cut-off of the bank it is done or undone. 'tsq' (the default) waits for a person instead, 'fail' just ends it.
  deadlineAction: 'compensate',
  deadline: () => '1h',
  async execute(ctx, state) {
    await ctx.step('reserve', async () => `funds of ${state.payment}`, {
      compensate: (funds) => console.log(`released: ${funds}`),
    })
    await ctx.wait('confirmation', () => state.confirmed === true, { timeout: '24h' })
    return 'settled'
  },
})

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })
hf.register(Transfer)
await hf.run()

const inTime = await hf.start(Transfer, { payment: 'PAY-1' })
await hf.process(Transfer, inTime.id).respond('confirmed', {})
console.log(`PAY-1: ${await hf.process(Transfer, inTime.id).result()}`)

// This one has an earlier deadline than the definition gives.
const tooLate = await hf.start(Transfer, { payment: 'PAY-2' }, { deadline: '300ms' })
let standing = await hf.process(Transfer, tooLate.id).get()
while (standing.status !== 'COMPENSATED') {
  await sleep(50)
  standing = await hf.process(Transfer, tooLate.id).get()
}
console.log(`PAY-2: ${standing.status}, ${standing.error?.code}`)

// A confirmation that comes after the end changes what readers see, and nothing else.
await hf.process(Transfer, tooLate.id).respond('confirmed', {})
const { status, state } = await hf.process(Transfer, tooLate.id).get()
console.log(`PAY-2: still ${status}, now ${JSON.stringify(state)}`)

await hf.close()
await database.stop()
