import { databaseUptimeMs } from '../kernel/clock/clock.js'
import { noMetrics } from '../kernel/metrics/metrics.js'
import type { Listener } from '../kernel/notify/listener.js'
import { createWorkLoop, type WorkLoop } from '../kernel/work/loop.js'
import { checksOf, runChecks, typeOfChecks } from './cycle/checks.js'
import { runCycle } from './cycle/cycle.js'
import { createMarks, type Marks } from './cycle/marks.js'
import type { CycleParts } from './cycle/parts.js'
import type { DefinedDispatch } from './define.js'
import { createDepthGauge } from './depth.js'
import { noteDispatch } from './queries/note-dispatch.js'
import type { DispatchRegistry } from './registry.js'
import { cycleSource } from './source.js'
import { isOwn } from './targets.js'

interface WorkerSettings {
  readonly name: string
  /** Read again when something is registered later. */
  readonly domains: () => readonly string[]
  readonly leaseMs: number
  readonly pollMs: number
}

interface Parts extends Omit<CycleParts, 'definition' | 'marks'> {
  readonly registry: DispatchRegistry
  readonly listener: Listener | undefined
}

/** All item types of one worker: their cycles run side by side, each by one dispatcher at a time. */
const AT_ONCE = 100
/** Milliseconds. One look at two small tables. */
const NOTED_EVERY = 20_000

/** What a worker does for dispatch. */
export interface DispatchWork {
  /** Makes what the item types need that were registered since; answers the loop with the first of them, not started. */
  grow(): Promise<readonly WorkLoop[]>
  stopping(): void
}

/** The loop that runs the cycles of the item types registered here. None where there are none. */
export function createDispatchWork(settings: WorkerSettings, { registry, listener, ...parts }: Parts): DispatchWork {
  const { db, logger, metrics } = parts
  const noted = new Set<DefinedDispatch>()
  let made = false
  const note = async () => {
    for (const definition of noted) await noteDispatch(db, definition)
  }
  const marks = new Map<string, Marks>()
  const gauge = metrics === noMetrics ? undefined : createDepthGauge(db, metrics)
  let stopping = false
  const loop = createWorkLoop({
    source: cycleSource(db.reserved, () => cyclesOf([...noted])),
    async run({ type, epoch }, lease) {
      const checked = typeOfChecks(type)
      const definition = registry.find(checked ?? type)
      if (!definition) return
      const own = marks.get(type) ?? createMarks()
      marks.set(type, own)
      const cycle = { type, epoch, signal: lease.signal }
      const mayGoOn = () => !stopping && !lease.aborted
      const cycleParts = { ...parts, definition, marks: own }
      if (checked === undefined) {
        await runCycle(cycleParts, cycle, mayGoOn)
        await gauge?.measure(type)
      } else if (!isOwn(definition.target)) {
        await runChecks(cycleParts, cycle, definition.target, mayGoOn)
      }
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
  // A database that is restored to an earlier state under a live worker knows nothing of its cycles: nothing would be due.
  const noting = setInterval(() => {
    note().catch((error: unknown) => logger.warn({ err: error }, 'could not note the item types of this worker'))
  }, NOTED_EVERY).unref()
  return {
    async grow() {
      for (const definition of settings.domains().flatMap((domain) => registry.inDomain(domain))) {
        if (noted.has(definition)) continue
        await noteDispatch(db, definition)
        noted.add(definition)
      }
      if (made || noted.size === 0) return []
      made = true
      return [loop]
    },
    stopping() {
      stopping = true
      clearInterval(noting)
    },
  }
}

/** Each item type has a cycle of releases, and a remote one also a cycle of checks. */
function cyclesOf(definitions: readonly DefinedDispatch[]): readonly string[] {
  return definitions.flatMap(({ name, target }) => (isOwn(target) ? [name] : [name, checksOf(name)]))
}
