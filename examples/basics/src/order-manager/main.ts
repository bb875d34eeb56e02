import { setTimeout as sleep } from 'node:timers/promises'
import { startEmbedded } from '@holdfast/embedded'
import { BusinessError, defineCommand, defineManager, holdfast, resultOf, stepCommand } from 'holdfast'
import { z } from 'zod'

const Order = z.object({ order: z.string(), cents: z.int() })
const Parcel = z.object({ parcel: z.string() })

const Reserve = defineCommand('shop', 'Reserve', { data: Order, result: z.object({ shelf: z.string() }) })
const Release = defineCommand('shop', 'Release', { data: z.object({ order: z.string(), shelf: z.string() }) })
const Charge = defineCommand('shop', 'Charge', { data: Order, result: z.object({ receipt: z.string() }) })
const Refund = defineCommand('shop', 'Refund', { data: Order })
const Thank = defineCommand('shop', 'Thank', { data: z.object({ order: z.string(), text: z.string() }) })

const Purchase = defineManager('shop', 'Purchase', {
  state: Order.extend({
    shelf: z.string().default(''),
    receipt: z.string().default(''),
    parcel: z.string().default(''),
  }),
  steps: ['reserve', 'charge', 'handOver', 'thank'],
  firstStep: () => 'reserve',
  command(step, { order, cents, receipt, parcel }) {
    if (step === 'reserve') return stepCommand(Reserve, { order, cents })
    if (step === 'charge') return stepCommand(Charge, { order, cents }, { retry: { maxAttempts: 5 } })
    return stepCommand(Thank, { order, text: `receipt ${receipt}, parcel ${parcel}` })
  },
  onReply(purchase, step, reply) {
    if (reply.outcome !== 'SUCCESS') return purchase
    if (step === 'reserve') return { ...purchase, shelf: resultOf(Reserve, reply).shelf }
    if (step === 'charge') return { ...purchase, receipt: resultOf(Charge, reply).receipt }
    if (step === 'handOver') return { ...purchase, parcel: Parcel.parse(reply.result).parcel }
    return purchase
  },
  nextStep: (step) => (({ reserve: 'charge', charge: 'handOver', handOver: 'thank', thank: null }) as const)[step],
  compensation(step, { order, cents, shelf }) {
    if (step === 'reserve') return stepCommand(Release, { order, shelf })
    return step === 'charge' ? stepCommand(Refund, { order, cents }) : undefined
  },
  waitOnly: (step) => step === 'handOver',
})

const database = await startEmbedded({ ephemeral: true })
const hf = await holdfast({ connectionString: database.connectionString })

hf.handle(Reserve, ({ order }) => {
  console.log(`${order}: reserved`)
  return { shelf: 'A7' }
})
hf.handle(Release, ({ order, shelf }) => console.log(`${order}: ${shelf} released`))
hf.handle(Charge, ({ order, cents }) => {
  if (cents > 100_000) throw new BusinessError('over the limit of the card', { code: 'OVER_LIMIT' })
  console.log(`${order}: ${cents} cents charged`)
  return { receipt: `R-${order}` }
})
hf.handle(Refund, ({ order }) => console.log(`${order}: refunded`))
hf.handle(Thank, ({ order, text }) => console.log(`${order}: ${text}`))
hf.register(Purchase)
await hf.run()

async function ended(order: string): Promise<string> {
  for (;;) {
    const { status } = await hf.process(Purchase, order).get()
    if (status === 'COMPLETED' || status === 'COMPENSATED') return `${order}: ${status}`
    await sleep(20)
  }
}

const { id } = await hf.start(Purchase, { order: 'ORD-1', cents: 2_500 }, { key: 'ORD-1' })
await hf.queues.send('shop__process_replies', {
  correlation_id: id,
  reply_id: 'scan-4711',
  outcome: 'SUCCESS',
  result: { parcel: 'P-9' },
})
console.log(await ended('ORD-1'))

await hf.start(Purchase, { order: 'ORD-2', cents: 250_000 }, { key: 'ORD-2' })
console.log(await ended('ORD-2'))

await hf.close()
await database.stop()
