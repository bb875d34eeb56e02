import { measure } from './harness/measure.js'
import type { Answer, Order } from './harness/order.js'
import { findWorkload } from './workloads/index.js'

// The process of one system in one round: its argument says what to do; it sends one result and ends.

// Ctrl-C reaches the whole group; the parent decides, and takes us along.
process.on('SIGINT', () => undefined)
process.on('disconnect', () => process.exit(1))

async function obey(order: Order): Promise<Answer> {
  const system = findWorkload(order.workload)?.systems(order.options)[order.system]
  if (system === undefined) throw new Error(`there is no system ${order.system} of ${order.workload}`)
  if (order.phase === 'measure') {
    return { phase: 'measure', measurement: await measure(system, order.task, order.observed) }
  }
  await system.prepare(order.task)
  return { phase: 'prepare' }
}

function failed(error: unknown): Answer {
  return { phase: 'failed', problem: error instanceof Error ? (error.stack ?? error.message) : String(error) }
}

const order: Order = JSON.parse(process.argv[2] ?? '{}')
const answer = await obey(order).catch(failed)
// Not before it is sent; and then at once, whatever timers or connections a system has left behind.
process.send?.(answer, () => process.exit(0))
