import { setTimeout as sleep } from 'node:timers/promises'
import { startEmbedded } from '@holdfast/embedded'
import { defineWorkflow, holdfast, PermanentError } from 'holdfast'
import { z } from 'zod'

// `dlq`: a failure is not compensated. The failed step and its instance wait for a person.
const Payroll = defineWorkflow('payroll', 'payroll', { dlq: true, retry: { maxAttempts: 2 } })
  .step('hold', 'HoldMoney')
  .fork(
    'pay',
    (b) => b.step('transfer', 'Transfer'),
    (b) => b.step('payslip', 'SendPayslip', { delay: '1h' }),
  )
  .join('paid', 'all')
  .build()

const Salary = z.object({ employee: z.string(), iban: z.string() })

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })

hf.handle('HoldMoney', (salary) => {
  console.log('money held')
  return salary
})
hf.handle(
  'Transfer',
  ({ iban }, { attempt }) => {
    if (iban.startsWith('ED')) throw new PermanentError(`no such account: "${iban}"`, { code: 'NO_ACCOUNT' })
    return `paid to ${iban} with attempt ${attempt}`
  },
  { input: Salary },
)
hf.handle('SendPayslip', () => 'sent')
await hf.run()

const salary = await hf.start(Payroll, { employee: 'ann', iban: 'ED-1' }, { key: 'ann, May' })
while ((await salary.get()).status !== 'DLQ') await sleep(20)
console.log(await salary.render())
console.log((await salary.why()).text)

for (const { code, sample, count } of await hf.trouble.groups({ type: 'payroll' })) {
  console.log(`${count} with ${code}: ${sample.message}`)
}

const transfer = (await salary.steps()).find(({ name }) => name === 'transfer')
const corrected = { ...Salary.parse(transfer?.input), iban: 'DE-1' }
const ann = { actor: 'ann', reason: 'two letters were swapped' }
await salary.retry(ann, { step: 'transfer', input: corrected })
// The paused step of the other branch continues too. The money was held once.
console.log(await salary.result())

await salary.retry(ann).catch(({ code }: Error & { code: string }) => console.log(code))
for (const { type, step, actor, reason } of await salary.history()) {
  if (actor !== null) console.log(`${type} of ${step} by ${actor}: ${reason}`)
}

await hf.close()
await database.stop()
