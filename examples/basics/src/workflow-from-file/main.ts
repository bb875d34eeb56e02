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

hf.workflows.handle('ChargeCard', (order) => order)
hf.workflows.handle('RefundCard', () => 'refunded')
hf.workflows.handle('SendThanks', (_, ctx) => `thanks, by version ${ctx.version}`)
hf.workflows.handle('ShipOrder', () => 'shipped')
hf.register(Order) // stored when a worker starts: from then on others can start it by its name
await hf.run()

const order = { total: 20 }
console.log(await hf.workflows.startAndWait('order', order))

// A stored version never changes under its instances: another graph is another version.
const changed = { ...JSON.parse(file), dlq: true }
const refused = hf.start(loadWorkflow(changed), order)
await refused.catch(({ code }: Error & { code: string }) => console.log(code))

const OrderV2 = loadWorkflow({ ...changed, version: 2 })
await hf.workflows.startAndWait(OrderV2, order)
console.log(await hf.workflows.startAndWait('order', order)) // the newest
console.log(await hf.workflows.startAndWait('order-v1', order)) // that one

await hf.close()
await database.stop()
