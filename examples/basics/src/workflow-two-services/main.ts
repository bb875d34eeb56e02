import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { startEmbedded } from '@holdfast/embedded'
import { holdfast } from 'holdfast'
import { Purchase } from './purchase.js'

const database = await startEmbedded({ ephemeral: true })
// This program has no handlers and runs no worker: it starts purchases and reads their status.
const hf = await holdfast({ connectionString: database.connectionString })

const services = ['billing', 'warehouse'].map((name) =>
  fork(fileURLToPath(new URL(`./${name}.js`, import.meta.url)), [database.connectionString]),
)
await Promise.all(services.map((service) => once(service, 'message')))

console.log(await (await hf.start(Purchase, { order: 'ORD-1', cents: 2_500 })).result())

const purchase = await hf.start(Purchase, { order: 'ORD-2', cents: 900 })
await purchase.result().catch(({ code }: Error & { code: string }) => console.log(code))
console.log(await purchase.render())

for (const service of services) service.disconnect()
await Promise.all(services.map((service) => once(service, 'exit')))
await hf.close()
await database.stop()
