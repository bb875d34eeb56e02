import { setTimeout as sleep } from 'node:timers/promises'
import { startEmbedded } from '@holdfast/embedded'
import { defineCommand, defineProcess, holdfast, PermanentError } from 'holdfast'
import { z } from 'zod'

let bankIsUp = false
function pay(reference: string): string {
  if (!bankIsUp) throw new PermanentError('no connection to the bank', { code: 'BANK_DOWN' })
  return `paid ${reference}`
}

const Pay = defineCommand('payments', 'Pay', { data: z.object({ reference: z.string() }), result: z.string() })
const Payout = defineProcess('payouts', 'Payout', {
  state: z.object({ reference: z.string() }),
  async execute(ctx, { reference }) {
    await ctx.step('pay', async () => pay(reference))
    await ctx.step('notify', async () => {
      throw new PermanentError(`the customer of ${reference} has no e-mail address`, { code: 'NO_ADDRESS' })
    })
    return reference
  },
})

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString, logger: false })
hf.handle(Pay, ({ reference }) => pay(reference))
hf.register(Payout)
await hf.run()

await hf.sendMany(Pay, [{ data: { reference: 'A-1' } }, { data: { reference: 'A-2' } }])
while ((await hf.trouble.count({ model: 'commands' })) < 2) await sleep(20)
await hf.start(Payout, { reference: 'B-1' }, { key: 'B-1' })
await hf.start(Payout, { reference: 'B-2' }, { key: 'B-2' })
await hf.start(Payout, { reference: 'B-3' }, { key: 'B-3' })

const groups = await hf.trouble.groups()
for (const { count, model, type, step, code, sample } of groups) {
  console.log(`${count} ${model} of ${type}${step === null ? '' : ` at ${step}`}: ${code}, such as: ${sample.message}`)
}

const { items } = await hf.trouble.list({ domain: 'payouts', limit: 20 })
for (const { key, step, attempts, can, outcomeUnknown } of items) {
  console.log(`${key} at ${step} after ${attempts}: ${can.join(', ')}${outcomeUnknown ? ', outcome unknown' : ''}`)
}

const fingerprint = groups[0]?.fingerprint ?? ''
await hf.trouble.assign({ fingerprint }, { actor: 'ann', reason: 'on call' }, { to: 'ann' })
console.log(`${await hf.trouble.count({ assignedTo: 'ann' })} are with ann`)

bankIsUp = true
// One first: does it work now?
console.log(await summary(hf.trouble.retry({ fingerprint, model: 'commands', limit: 1 }, by('the bank says it is up'))))
console.log(await summary(hf.trouble.retry({ fingerprint }, by('the bank is up'))))

while ((await hf.trouble.count({ step: 'notify' })) < 3) await sleep(20)
console.log(await summary(hf.trouble.skip({ domain: 'payouts', step: 'notify' }, by('they are told by letter'))))
console.log(await hf.process(Payout, 'B-3').result())
console.log(`${await hf.trouble.count()} need a person`)

function by(reason: string) {
  return { actor: 'ann', reason }
}

async function summary(acting: ReturnType<typeof hf.trouble.retry>): Promise<string> {
  const results = await acting
  const refused = results.filter(({ outcome }) => outcome === 'refused')
  return `${results.length - refused.length} done, ${refused.length} refused${refused.map(({ code }) => ` (${code})`).join('')}`
}

await hf.close()
await database.stop()
