import { startEmbedded } from '@holdfast/embedded'
import { BusinessError, defineProcess, holdfast, StepFailed } from 'holdfast'
import { z } from 'zod'

const Leg = defineProcess('fx', 'Leg', {
  state: z.object({ from: z.string(), to: z.string() }),
  async execute(ctx, { from, to }) {
    if (to === 'XXX') throw new BusinessError(`nobody trades ${to}`, { code: 'NO_MARKET' })
    return ctx.step('quote', async () => ({ pair: `${from}/${to}`, rate: 2 }))
  },
})

const Exchange = defineProcess('fx', 'Exchange', {
  state: z.object({ legs: z.array(z.object({ from: z.string(), to: z.string() })) }),
  async execute(ctx, { legs }) {
    // Each is a process of its own, on any free worker; this one is suspended until they have ended.
    const quotes = await Promise.all(
      legs.map((leg) => ctx.child('leg', Leg, leg, { onFailure: 'throw' }).catch((error: unknown) => failed(error))),
    )
    return quotes.map((quote) => (typeof quote === 'string' ? quote : `${quote.pair} at ${quote.rate}`))
  },
})

function failed(error: unknown): string {
  if (!(error instanceof StepFailed)) throw error
  return error.message
}

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })
hf.register(Leg)
hf.register(Exchange)
await hf.run()

const legs = [
  { from: 'EUR', to: 'USD' },
  { from: 'USD', to: 'JPY' },
  { from: 'JPY', to: 'XXX' },
]
const exchange = await hf.start(Exchange, { legs })
console.log((await exchange.get()).status)
for (const line of await exchange.result()) console.log(line.replace(/child \S+ /, 'child '))
console.log(`${(await hf.processes.list({ parent: exchange.id })).items.length} children`)

await hf.close()
await database.stop()
