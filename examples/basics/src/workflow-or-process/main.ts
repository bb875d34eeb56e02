import { startEmbedded } from '@holdfast/embedded'
import { BusinessError, defineProcess, defineWorkflow, holdfast } from 'holdfast'
import { z } from 'zod'

// The same purchase twice: reserve, charge, ship; if the parcel cannot be sent, refund and put back. First the services,
// which are the same for both.
const Order = z.object({ order: z.string(), cents: z.int().positive(), to: z.string() })
const Reserved = Order.extend({ shelf: z.string() })
const Charged = Reserved.extend({ receipt: z.string() })

const shop = {
  reserve: (order: string) => ({ shelf: `shelf of ${order}` }),
  putBack: (shelf: string) => console.log(`  ${shelf}: put back`),
  charge: (order: string, key: string) => {
    console.log(`  ${order}: charged under ${key.slice(-7)}`)
    return { receipt: `R-${order}` }
  },
  refund: (receipt: string) => console.log(`  ${receipt}: refunded`),
  ship: (order: string, to: string) => {
    if (to === 'the moon') throw new BusinessError('nobody delivers there', { code: 'NO_ROUTE' })
    return { parcel: `P-${order}` }
  },
}

const PurchaseWorkflow = defineWorkflow('shop', 'purchase')
  .step('reserve', 'Reserve')
  .onFailure('putBack', 'PutBack')
  .step('charge', 'Charge', { retry: { maxAttempts: 3, delay: '5s', factor: 1 } })
  .onFailure('refund', 'Refund')
  .step('ship', 'Ship')
  .build()

const PurchaseProcess = defineProcess('shop', 'Purchase', {
  state: Order,
  async execute(ctx, { order, to }) {
    await ctx.step('reserve', async () => shop.reserve(order), {
      compensate: async (reserved) => shop.putBack(reserved?.shelf ?? `shelf of ${order}`),
    })
    await ctx.step('charge', async ({ idempotencyKey }) => shop.charge(order, idempotencyKey), {
      compensate: async (charged) => shop.refund(charged?.receipt ?? `R-${order}`),
      retry: { maxAttempts: 3, delay: '5s' },
    })
    return ctx.step('ship', async () => shop.ship(order, to))
  },
})

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })

hf.handle('Reserve', (order) => ({ ...order, ...shop.reserve(order.order) }), { input: Order })
// A compensation is also called when its own step failed, which may have had no effect.
hf.handle('PutBack', (_, { output }) => {
  if (output !== undefined) shop.putBack(Reserved.parse(output).shelf)
})
hf.handle('Charge', (it, ctx) => ({ ...it, ...shop.charge(it.order, ctx.idempotencyKey) }), {
  input: Reserved,
})
hf.handle('Refund', (_, { output }) => {
  if (output !== undefined) shop.refund(Charged.parse(output).receipt)
})
hf.handle('Ship', ({ order, to }) => shop.ship(order, to), { input: Charged })
hf.register(PurchaseProcess)
await hf.run()

for (const [order, to] of [
  ['ORD-1', 'Paris'],
  ['ORD-2', 'the moon'],
] as const) {
  const input = { order, cents: 2_500, to }
  console.log(`${order} to ${to}, as a workflow`)
  const purchase = await hf.start(PurchaseWorkflow, input, { key: order })
  await purchase.result().catch(() => undefined)
  console.log(`  ${(await purchase.get()).status}`)

  console.log(`${order} to ${to}, as a process`)
  console.log(`  ${(await (await hf.start(PurchaseProcess, input, { key: order })).get()).status}`)
}

await hf.close()
await database.stop()
