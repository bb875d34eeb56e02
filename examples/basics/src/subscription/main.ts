import { startEmbedded } from '@holdfast/embedded'
import { defineProcess, holdfast } from 'holdfast'
import { z } from 'zod'

// Outside of an example: '30d'.
const MONTH = '20ms'

const Subscription = defineProcess('billing', 'Subscription', {
  state: z.object({ customer: z.string(), month: z.int(), last: z.int() }),
  async execute(ctx, account) {
    await ctx.sleep('a month', MONTH)
    await ctx.step('charge', async () => console.log(`${account.customer} pays for month ${account.month}`))
    if (account.month === account.last) return 'ended by the customer'
    // The fresh history begins with this state, under the same id and key.
    return ctx.continueAsNew({ ...account, month: account.month + 1 })
  },
})

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })
hf.register(Subscription)
await hf.run()

const { id } = await hf.start(Subscription, { customer: 'ada', month: 1, last: 3 }, { key: 'SUB-1' })
console.log(await hf.process(Subscription, 'SUB-1').result())
console.log(`one process: ${(await hf.process(Subscription, 'SUB-1').get()).id === id}`)

await hf.close()
await database.stop()
