import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { startEmbedded } from '@holdfast/embedded'
import { defineWorkflow, holdfast, TransientError, type WorkflowHandle } from 'holdfast'
import type { WorkflowStepRecord } from 'holdfast/types'

const Report = defineWorkflow('reports', 'report').step('write', 'WriteReport', { priority: 10 }).build()
const Payment = defineWorkflow('payments', 'payment')
  .step('pay', 'Pay', { priority: 90, retry: { delay: '1h', factor: 1 } })
  .build()
const Import = defineWorkflow('reports', 'import')
  .step('open', 'OpenLedger')
  .onFailure('close', 'CloseLedger')
  .step('copy', 'CopyRows')
  .build()

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })
const ann = { actor: 'ann', reason: 'the supplier has called' }
// Points of priority that a waiting step gains per second, in the whole installation; 0 switches it off.
await hf.workflows.configure({ aging: 0.5 }, { actor: 'ann', reason: 'as it was' })
const codeOf = ({ code }: Error & { code: string }) => code

hf.handle('WriteReport', () => console.log('report written'))
hf.handle('Pay', (_, { attempt }) => {
  console.log(`payment, attempt ${attempt}`)
  if (attempt === 1) throw new TransientError('the bank is closed', { code: 'BANK_CLOSED' })
})
hf.handle('OpenLedger', () => 'ledger')
hf.handle('CloseLedger', () => console.log('ledger closed again'))
hf.handle('CopyRows', async (_, { signal }) => {
  // For an hour, perhaps on another machine: a cancel reaches it within a second.
  await once(signal, 'abort')
  console.log('told to stop')
  throw signal.reason
})

const audited = new Set<string>()
const ends: string[] = []
const forget = hf.workflows.use({
  name: 'auditors',
  workflowStarting({ workflow }) {
    if (audited.has(workflow)) throw new Error('the books are closed')
  },
  workflowCompleted: ({ workflow }) => void ends.push(`${workflow} completed`),
  workflowFailed: ({ workflow, status }) => void ends.push(`${workflow} ${status}`),
})

audited.add(Payment.name)
await hf.start(Payment, null).catch((error: Error) => console.log(error.message))
audited.clear()

// No worker runs yet: a step says what it waits for.
const report = await hf.start(Report)
const payment = await hf.start(Payment, null, { key: 'PAY-1' })
for (const { name, status, queued } of await report.steps()) {
  console.log(`${name}: ${status}, no worker has ${queued?.handler}: ${queued?.handlerMissing}`)
}

// The report was first, the payment has the higher priority. The report has it too after 180 s, and is then first again.
await hf.run({ concurrency: 1 })
await report.result()

// Its next attempt would be in an hour.
const [step] = await payment.steps()
console.log(`${step?.name}: ${step?.status} after attempt ${step?.attempts}, ${step?.error?.code}`)
await payment.retry({ actor: 'bob', reason: 'the bank has opened' }, { step: 'pay' })
await payment.result()

async function until(imported: WorkflowHandle, isSo: (step: WorkflowStepRecord) => boolean): Promise<void> {
  while (!(await imported.steps()).some((it) => it.name === 'copy' && isSo(it))) await sleep(20)
}

for (const compensate of [true, false]) {
  const imported = await hf.start(Import)
  await until(imported, ({ status }) => status === 'RUNNING')
  await imported.cancel(ann, { compensate })
  await until(imported, ({ error }) => error !== null)
  console.log(await imported.result().catch(codeOf))
  console.log(await imported.render())
}

for (const status of ['COMPLETED', 'CANCELLED', 'ABORTED', 'DLQ'] as const) {
  const { items: found } = await hf.workflows.list({ status })
  console.log(`${status}: ${found.map(({ type }) => type).join(', ') || 'none'}`)
}
console.log(`removed: ${await hf.workflows.cleanUp({ olderThan: '30d', statuses: ['COMPLETED', 'ABORTED'] })}`)

forget()
await hf.close()
console.log(ends.join(', '))
await database.stop()
