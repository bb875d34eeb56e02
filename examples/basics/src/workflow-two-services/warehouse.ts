import { BusinessError, holdfast } from 'holdfast'
import { z } from 'zod'

// Another program, perhaps of another team and on another machine; the database is all they share.
const hf = await holdfast({ connectionString: process.argv[2] ?? '' })
const Charged = z.object({ order: z.string(), cents: z.int(), chargedBy: z.string() })

hf.handle(
  'warehouse.Ship',
  ({ order, chargedBy }) => {
    if (order === 'ORD-2') throw new BusinessError('sold out', { code: 'SOLD_OUT' })
    return `${order}: charged by ${chargedBy}, shipped by the warehouse`
  },
  { input: Charged },
)
await hf.run({ name: 'warehouse' })

process.once('disconnect', () => void hf.close()) // drains what runs
process.send?.('ready')
