import { createLimiter, openDatabase } from 'holdfast/internal'

// A worker of its own: takes slots of one key, a few at a time, and tells when they are.

export interface LimiterOrder {
  readonly connectionString: string
  readonly key: string
  readonly rounds: number
  readonly atOnce: number
  readonly maxWaitMs: number
}

const order: LimiterOrder = JSON.parse(process.argv[2] ?? '{}')
const db = await openDatabase({ connectionString: order.connectionString, poolSize: 2 })
const limiter = createLimiter(db)
const slots: number[] = []
let refused = 0
for (let round = 0; round < order.rounds; round += 1) {
  const asked = Array.from({ length: order.atOnce }, () => limiter.reserve(order.key, order.maxWaitMs))
  for (const answer of await Promise.all(asked)) {
    if (answer.granted) slots.push(answer.atMs)
    else refused += 1
  }
}
await limiter.close()
await db.close()
process.send?.({ slots, refused }, () => process.disconnect())
