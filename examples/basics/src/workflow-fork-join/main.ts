import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { startEmbedded } from '@holdfast/embedded'
import { defineWorkflow, holdfast } from 'holdfast'
import { z } from 'zod'

const Fulfilment = defineWorkflow('shop', 'fulfilment')
  .fork(
    'prepare',
    // Steps after a condition are its true side; the else branch does not rejoin them, and the join waits for the side taken.
    (b) =>
      b.condition('isDigital', '{{ eq .kind "digital" }}', (e) => e.step('pack', 'Pack')).step('makeLink', 'MakeLink'),
    // Without an else branch: a small order ends this branch here, and the join counts that as its end.
    (b) => b.condition('isBig', '{{ and (gt .total 1000) (ne .customer.kind "staff") }}').step('assess', 'AssessRisk'),
  )
  .join('prepared', 'all')
  .fork(
    'quotes',
    (b) => b.step('slow', 'AskSlowCourier'),
    (b) => b.step('quick', 'AskQuickCourier'),
  )
  // Fires on the first success. The other branch is skipped, and its handler gets its signal.
  .join('chosen', 'any')
  .build()

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })

const Order = z.object({ order: z.string() })
let called = () => {}
const slowCourierIsAsked = new Promise<void>((resolve) => {
  called = resolve
})
hf.handle('Pack', ({ order }) => `${order} packed`, { input: Order })
hf.handle('MakeLink', ({ order }) => `https://example.com/${order}`, { input: Order })
hf.handle('AssessRisk', () => 'low risk')
hf.handle('AskSlowCourier', async (_, { signal }) => {
  called()
  await once(signal, 'abort')
  throw signal.reason
})
hf.handle('AskQuickCourier', async () => {
  await slowCourierIsAsked
  return { courier: 'quick', euros: 9 }
})
await hf.run()

const order = await hf.start(Fulfilment, {
  order: 'ORD-1',
  kind: 'book',
  total: '1000.01', // compared digit by digit, never as a float
  customer: { kind: 'company' },
})
console.log(await order.result())

const [prepared] = (await order.steps()).filter(({ name }) => name === 'prepared')
console.log(prepared?.output)
// The handler of the other branch gets its signal a moment later.
while ((await order.steps()).some(({ queued }) => queued !== null)) await sleep(20)
console.log(await order.render())

await hf.close()
await database.stop()
