import { readFile } from 'node:fs/promises'
import { startEmbedded } from '@holdfast/embedded'
import { handlersOf, holdfast, loadWorkflow, renderMermaid, renderText } from 'holdfast'

const file = await readFile(new URL('../../order-workflow.json', import.meta.url), 'utf8')
const Order = loadWorkflow(file)
console.log(renderText(Order))
console.log(renderMermaid(Order))
console.log(`it needs ${handlersOf(Order).join(', ')}`)

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })

hf.handle('ChargeCard', (order) => order)
hf.handle('RefundCard', () => 'refunded')
hf.handle('SendThanks', (_, ctx) => `thanks, by version ${ctx.version}`)
hf.handle('ShipOrder', () => 'shipped')
hf.register(Order) // stored when a worker starts: from then on others can start it by its name
await hf.run()

const order = { total: 20 }
console.log(await (await hf.start('shop/order', order)).result())

// A stored version never changes under its instances: another graph is another version.
const changed = { ...JSON.parse(file), dlq: true }
const refused = hf.start(loadWorkflow(changed), order)
await refused.catch(({ code }: Error & { code: string }) => console.log(code))

const OrderV2 = loadWorkflow({ ...changed, version: 2 })
await (await hf.start(OrderV2, order)).result()
console.log(await (await hf.start('shop/order', order)).result()) // the newest
console.log(await (await hf.start('shop/order-v1', order)).result()) // that one

await hf.close()
await database.stop()
