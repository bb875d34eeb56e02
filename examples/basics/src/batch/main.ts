import { setTimeout as sleep } from 'node:timers/promises'
import { startEmbedded } from '@holdfast/embedded'
import { type BatchSummary, BusinessError, defineCommand, holdfast } from 'holdfast'
import { z } from 'zod'

const PaySalary = defineCommand('payroll', 'PaySalary', {
  data: z.object({ employee: z.string(), cents: z.int().positive() }),
})
const PayrollPaid = defineCommand('payroll', 'PayrollPaid', { data: z.custom<BatchSummary>() })

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })

hf.handle(PaySalary, async ({ employee }) => {
  if (employee === 'carl') throw new BusinessError('the account is closed', { code: 'ACCOUNT_CLOSED' })
})
const paid = new Promise<BatchSummary>((resolve) => hf.handle(PayrollPaid, resolve))

const batchId = await hf.batches.create(
  PaySalary,
  ['anna', 'bert', 'carl'].map((employee) => ({ data: { employee, cents: 300_000 } })),
  { name: 'salaries', data: { month: 'May' }, onComplete: PayrollPaid },
)
const before = await hf.batches.get(batchId)
console.log(`${before.completed} of ${before.total} paid`)

await hf.run()
const { name, status, completed, failed, total } = await paid
console.log(`${name}: ${status}, ${completed} of ${total} paid, ${failed} failed`)

for (const { data, error } of (await hf.commands.list({ batch: batchId, status: 'FAILED' })).items) {
  console.log(`not paid: ${(data as { employee: string }).employee}, ${error?.message}`)
}

const openId = await hf.batches.open('payroll', { name: 'bonuses' })
await hf.send(PaySalary, { employee: 'anna', cents: 50_000 }, { batch: openId })
await hf.sendMany(PaySalary, [{ data: { employee: 'bert', cents: 50_000 } }], { batch: openId })
await hf.batches.seal(openId) // takes no more; closes when all have ended
while ((await hf.batches.get(openId)).completedAt === null) await sleep(20)
const bonuses = await hf.batches.get(openId)
console.log(`${bonuses.name}: ${bonuses.status}, ${bonuses.completed} of ${bonuses.total} paid`)

await hf.close()
await database.stop()
