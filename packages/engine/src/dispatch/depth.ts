import { splitName } from '../kernel/ids/name.js'
import type { Executor, Metrics } from '../kernel/model/index.js'
import { countItems } from './queries/count-items.js'
import { dispatchStatuses } from './states.js'

const BETWEEN = 10_000

/** How many items there are in each status, now and then. */
export function createDepthGauge(db: Executor, metrics: Metrics) {
  const next = new Map<string, number>()
  return {
    async measure(type: string): Promise<void> {
      const now = performance.now()
      if (now < (next.get(type) ?? 0)) return
      next.set(type, now + BETWEEN)
      const depth = await countItems(db, type)
      const names = splitName(type)
      for (const status of dispatchStatuses) {
        metrics.gauge('dispatch_depth', { model: 'dispatch', ...names, status }, depth[status])
      }
    },
  }
}
