import type { Executor } from '../kernel/database/executor.js'
import type { Metrics } from '../kernel/metrics/metrics.js'
import { countItems } from './queries/count-items.js'
import { dispatchStatuses } from './states.js'

const SHORTEST_BETWEEN = 10_000
/** Counting looks through the table: it may take this share of the time. */
const SHARE_OF_TIME = 0.02

/** How many items there are in each status, now and then: often where that is cheap, rarely where it is not (D-09). */
export function createDepthGauge(db: Executor, metrics: Metrics) {
  const next = new Map<string, number>()
  return {
    async measure(type: string): Promise<void> {
      const began = performance.now()
      if (began < (next.get(type) ?? 0)) return
      const depth = await countItems(db, type)
      const ended = performance.now()
      next.set(type, ended + Math.max(SHORTEST_BETWEEN, (ended - began) / SHARE_OF_TIME))
      for (const status of dispatchStatuses) {
        metrics.gauge('dispatch_depth', { model: 'dispatch', type, status }, depth[status])
      }
    },
  }
}
