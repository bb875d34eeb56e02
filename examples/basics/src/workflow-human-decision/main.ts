import { setTimeout as sleep } from 'node:timers/promises'
import { startEmbedded } from '@holdfast/embedded'
import { defineWorkflow, holdfast, ofType } from 'holdfast'
import { z } from 'zod'

const Order = z.object({ iban: z.string(), euros: z.number() })

const Payout = defineWorkflow('payments', 'payout', { input: Order })
  .step('check', 'CheckAccount', { output: Order })
  .condition(
    'isSmall',
    (payout) => payout.euros.lte(100), // stored as {{ le .euros 100 }}
    (e) =>
      e
        .waitHumanConfirm('approve', { metadata: { team: 'treasury' } })
        .step('payBig', 'Pay', { output: ofType<string>() }),
  )
  .step('paySmall', 'Pay', { output: ofType<string>() })
  .build()

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })

hf.handle(Payout, {
  CheckAccount: (payout) => payout,
  Pay: ({ iban, euros }) => `${euros} euros to ${iban}`,
})
await hf.run()

console.log(await (await hf.start(Payout, { iban: 'DE-1', euros: 20 })).result())

for (const euros of [5_000, 9_999]) await hf.start(Payout, { iban: 'DE-2', euros }, { key: `P-${euros}` })
while ((await hf.workflows.decisions.waiting({ type: 'payout' })).length < 2) await sleep(20)

// What a page for the treasury would show: these use no worker and no memory.
for (const { instanceId, step, input } of await hf.workflows.decisions.waiting({ type: 'payout' })) {
  const { euros } = Order.parse(input)
  if (euros === 5_000) await hf.workflow(instanceId).decide(step, 'confirm', { actor: 'ann', reason: 'invoice seen' })
  else await hf.workflow(instanceId).decide(step, 'reject', { actor: 'bob', reason: 'we owe them nothing' })
}

for (const key of ['P-5000', 'P-9999']) {
  const payout = hf.workflow(Payout, key)
  const outcome = await payout.result().catch((error: Error & { code: string }) => error.code)
  const { id, status } = await payout.get()
  console.log(`${key}: ${status}, ${String(outcome)}`)
  for (const { step, decision, actor, reason } of await hf.workflows.decisions.of(id)) {
    console.log(`  ${step}: ${decision} by ${actor}, ${reason}`)
  }
  // It has been decided: a second decision is refused.
  const late = payout.decide('approve', 'confirm', { actor: 'eve', reason: 'why not' })
  await late.catch(({ code }: Error & { code: string }) => console.log(`  eve: ${code}`))
}

await hf.close()
await database.stop()
