import { databaseUptimeMs } from '../kernel/clock/clock.js'
import { noMetrics } from '../kernel/metrics/metrics.js'
import type { Listener } from '../kernel/notify/listener.js'
import { createWorkLoop, type WorkLoop } from '../kernel/work/loop.js'
import { runCycle } from './cycle/cycle.js'
import { createMarks, type Marks } from './cycle/marks.js'
import type { CycleParts } from './cycle/parts.js'
import { createDepthGauge } from './depth.js'
import { noteDispatch } from './queries/note-dispatch.js'
import type { DispatchRegistry } from './registry.js'
import { cycleSource } from './source.js'

interface WorkerSettings {
  readonly name: string
  readonly domains: readonly string[]
  readonly leaseMs: number
  readonly pollMs: number
}

interface Parts extends Omit<CycleParts, 'definition' | 'marks'> {
  readonly registry: DispatchRegistry
  readonly listener: Listener | undefined
}

/** All item types of one worker: their cycles run side by side, each by one dispatcher at a time. */
const AT_ONCE = 100

/** The loop that runs the cycles of the item types registered here. None where there are none. */
export async function createDispatchLoop(
  settings: WorkerSettings,
  { registry, listener, ...parts }: Parts,
): Promise<{ readonly loops: readonly WorkLoop[]; stopping(): void }> {
  const { db, logger, metrics } = parts
  const definitions = registry.inDomains(settings.domains)
  if (definitions.length === 0) return { loops: [], stopping() {} }
  for (const definition of definitions) await noteDispatch(db, definition)
  const marks = new Map<string, Marks>()
  const gauge = metrics === noMetrics ? undefined : createDepthGauge(db, metrics)
  let stopping = false
  const loop = createWorkLoop({
    source: cycleSource(db, () => definitions.map(({ itemType }) => itemType)),
    async run({ type, epoch }, lease) {
      const definition = registry.find(type)
      if (!definition) return
      const own = marks.get(type) ?? createMarks()
      marks.set(type, own)
      const cycle = { type, epoch, signal: lease.signal }
      await runCycle({ ...parts, definition, marks: own }, cycle, () => !stopping && !lease.aborted)
      await gauge?.measure(type)
    },
    worker: settings.name,
    concurrency: AT_ONCE,
    leaseMs: settings.leaseMs,
    pollMs: settings.pollMs,
    databaseUptimeMs: () => databaseUptimeMs(db),
    gate: 'none',
    ...(listener ? { onWake: (wake: () => void) => listener.subscribe('dispatch', wake) } : {}),
    logger,
    metrics,
  })
  return {
    loops: [loop],
    stopping() {
      stopping = true
    },
  }
}
