import { setTimeout as sleep } from 'node:timers/promises'
import { createLimiter, openDatabase } from 'holdfast/internal'
import { openFlexible } from '../../libraries/rate-limiter-flexible.js'
import type { RateOrder, RateReport } from './rate-system.js'

// One worker process: callers that each take a grant, wait for it, and take the next, until the process has its share.

process.on('SIGINT', () => undefined)
process.on('disconnect', () => process.exit(0))

interface Taker {
  /** Resolves when the grant may be used, with its moment in milliseconds since 1970. */
  take(): Promise<number>
  close(): Promise<void>
}

const order: RateOrder = JSON.parse(process.argv[2] ?? '{}')
const takers: Readonly<Record<RateOrder['library'], () => Promise<Taker>>> = {
  holdfast: holdfastTaker,
  flexible: flexibleTaker,
}

async function holdfastTaker(): Promise<Taker> {
  const db = await openDatabase({ connectionString: order.connectionString, poolSize: 2 })
  const limiter = createLimiter(db)
  return {
    async take() {
      const slot = await limiter.reserve(order.key, 600_000)
      if (!slot.granted) throw new Error('refused')
      if (slot.waitMs > 0) await sleep(slot.waitMs)
      return slot.atMs
    },
    async close() {
      await limiter.close()
      await db.close()
    },
  }
}

async function flexibleTaker(): Promise<Taker> {
  const limiter = await openFlexible(order.connectionString, { points: order.rate, duration: 1 }, 2)
  return {
    async take() {
      for (;;) {
        const refusedFor = await limiter.consume(order.key)
        if (refusedFor === undefined) return Date.now()
        await sleep(Math.max(1, refusedFor))
      }
    },
    close: () => limiter.close(),
  }
}

const taker = await takers[order.library]()
const grants: number[] = []
let left = order.grants

async function call(): Promise<void> {
  while (left > 0) {
    left -= 1
    grants.push(await taker.take())
  }
}

async function work(): Promise<void> {
  await Promise.all(Array.from({ length: order.callers }, call))
  await taker.close()
  const { user, system } = process.cpuUsage()
  process.send?.({ grants, cpu: user + system } satisfies RateReport)
}

process.once('message', () => void work())
process.send?.('ready')
