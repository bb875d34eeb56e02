import { setTimeout as sleep } from 'node:timers/promises'
import { createWorkLoop, openDatabase } from 'holdfast/internal'
import { callBank, invoiceSource, recordPaid, SCHEMA } from './invoices.js'

// A worker process: claims invoices, calls the bank, records the payment. It may be killed at any instruction.
const [connectionString = '', name = ''] = process.argv.slice(2)
const db = await openDatabase({
  connectionString,
  schema: SCHEMA,
  poolSize: 4,
  applicationName: `holdfast demo ${name}`,
})

const loop = createWorkLoop({
  source: invoiceSource(db),
  worker: name,
  concurrency: 2,
  leaseMs: 2_000,
  pollMs: 200,
  run: async (invoice) => {
    await callBank(db, invoice.id, name)
    process.send?.({ what: 'called', number: invoice.number })
    await sleep(200)
    if (await recordPaid(db, invoice, name)) {
      process.send?.({ what: 'paid', number: invoice.number, attempt: invoice.epoch })
    }
  },
})
loop.start()

process.on('disconnect', () => void stop())
process.on('SIGTERM', () => void stop())
process.on('SIGINT', () => undefined) // Ctrl-C reaches the whole group; the main process tells us when to stop.

async function stop(): Promise<void> {
  await loop.stop(5_000)
  await db.close()
  process.exit()
}
