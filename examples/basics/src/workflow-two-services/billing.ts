import { holdfast } from 'holdfast'
import { z } from 'zod'

// A program of its own. It never claims steps that it has no handler for, such as the shipping of parcels.
const hf = await holdfast({ connectionString: process.argv[2] ?? '' })
const Order = z.object({ order: z.string(), cents: z.int() })

hf.handle('billing.Charge', (order) => ({ ...order, chargedBy: 'the billing service' }), { input: Order })
hf.handle('billing.Refund', ({ order }) => console.log(`billing: ${order} refunded`), { input: Order })
await hf.run({ name: 'billing' })

process.once('disconnect', () => void hf.close()) // drains what runs
process.send?.('ready')
