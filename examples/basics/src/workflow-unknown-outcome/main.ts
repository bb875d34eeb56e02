import { setTimeout as sleep } from 'node:timers/promises'
import { startEmbedded } from '@holdfast/embedded'
import { defineWorkflow, holdfast } from 'holdfast'

const Payment = defineWorkflow('payments', 'payment', { dlq: true })
  .step('pay', 'Pay', { nonIdempotent: true, retry: ['10ms'] })
  .step('confirm', 'Confirm')
  .build()

/** It pays, and loses the connection before it has responded. It responds to inquiries while its office is open. */
const bank = {
  paid: new Map<string, { receipt: number }>(),
  isOpen: true,
  pay(key: string): never {
    console.log('the bank pays')
    this.paid.set(key, { receipt: this.paid.size + 1 })
    throw new Error('read ECONNRESET')
  },
  find(key: string) {
    if (!this.isOpen) throw new Error('the office is closed')
    return this.paid.get(key)
  },
}

const database = await startEmbedded({ ephemeral: true })
// By default a closed office would be asked again for 30 s.
const hf = await holdfast({ connectionString: database.connectionString, logger: false, inquireFor: '10ms' })

hf.handle('Pay', (_, { idempotencyKey }) => bank.pay(idempotencyKey), {
  // Called after every error that is not a refusal, after a timeout or a crash, and before an operator's retry calls `Pay`.
  inquire(_, { idempotencyKey }) {
    const payment = bank.find(idempotencyKey)
    // This bank shows a payment at once. If it may show it late, return 'unknown' until it can no longer come.
    return payment ? { done: payment } : 'notDone'
  },
})
hf.handle('Confirm', (payment) => payment)
await hf.run()

console.log(await (await hf.start(Payment)).result())

bank.isOpen = false
const payment = await hf.start(Payment)
while ((await payment.get()).status !== 'DLQ') await sleep(20)
console.log((await payment.get()).error?.code)

// An operator finds out that it was done. If it was not, `retry(ann, { notDone: true })` calls it again.
const ann = { actor: 'ann', reason: 'seen on the statement' }
await payment.complete(ann, { receipt: 2 })
console.log(await payment.result())

await hf.close()
await database.stop()
