import { startEmbedded } from '@holdfast/embedded'
import { holdfast } from 'holdfast'

const database = await startEmbedded({ ephemeral: true }) // or any PostgreSQL of yours, 14 or newer
const hf = await holdfast({ connectionString: database.connectionString }) // brings its schema up to date

const worker = hf.run({ concurrency: 50, lease: '30s' })
console.log(`worker ${worker.isRunning ? 'running' : 'stopped'} on schema ${hf.schema}`)

await hf.pause({ domain: 'payments' }, { actor: 'ann', reason: 'the bank is down' })
await hf.resume({ domain: 'payments' }, { actor: 'bob', reason: 'the bank is back' })
for (const { event, actor, reason } of await hf.auditTrail({ name: 'domain:payments' })) {
  console.log(`${event} by ${actor}: ${reason}`)
}

await hf.close() // drains the worker
await database.stop()
