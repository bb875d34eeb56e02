import { setTimeout as sleep } from 'node:timers/promises'
import { startEmbedded } from '@holdfast/embedded'
import { defineWorkflow, holdfast } from 'holdfast'

const Payment = defineWorkflow('payments', 'payment', { dlq: true })
  .step('pay', 'Pay', { nonIdempotent: true, retry: ['10ms'] })
  .step('confirm', 'Confirm')
  .build()

/** It pays, and loses the connection before it has said so. It can be asked, while its office is open. */
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
// Usually an office that is closed is asked again for 30 s.
const hf = await holdfast({ connectionString: database.connectionString, logger: false, inquireFor: '10ms' })

hf.handle('Pay', (_, { idempotencyKey }) => bank.pay(idempotencyKey), {
  // Asked after every error that is no refusal, after a timeout, after a crash, and before a person's retry calls it again.
  inquire(_, { idempotencyKey }) {
    const payment = bank.find(idempotencyKey)
    // This bank shows a payment at once. Where it may come late, answer 'unknown' until it can no longer come.
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

// A person looks, and says that it was done; or, with `retry(ann, { notDone: true })`, that it may be called again.
const ann = { actor: 'ann', reason: 'seen on the statement' }
await payment.complete(ann, { receipt: 2 })
console.log(await payment.result())

await hf.close()
await database.stop()
