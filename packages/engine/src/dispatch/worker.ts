import {
  type Claimed,
  type Lease,
  type ModelWork,
  noMetrics,
  type Runtime,
  type WorkerParts,
} from '../kernel/model/index.js'
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

interface DispatchParts {
  readonly registry: DispatchRegistry
  readonly workflows: CycleParts['workflows']
}

/** All item types of one worker: their cycles run side by side, each by one dispatcher at a time. */
const AT_ONCE = 100
/** Milliseconds. One look at two small tables. */
const NOTED_EVERY = 20_000

/** What a worker does for dispatch: one loop runs the cycles of the item types registered here. None where there are none. */
export function dispatchWork(
  runtime: Runtime,
  { registry, workflows }: DispatchParts,
  { domains, loop }: WorkerParts,
): ModelWork {
  const { db, logger, metrics } = runtime
  const noted = new Set<DefinedDispatch>()
  const marks = new Map<string, Marks>()
  const gauge = metrics === noMetrics ? undefined : createDepthGauge(db, metrics)
  let noting: NodeJS.Timeout | undefined
  let stopping = false

  async function run({ type, epoch }: Claimed, lease: Lease<Claimed>): Promise<void> {
    const checked = typeOfChecks(type)
    const definition = registry.find(checked ?? type)
    if (!definition) return
    const own = marks.get(type) ?? createMarks()
    marks.set(type, own)
    const cycle = { type, epoch, signal: lease.signal }
    const mayGoOn = () => !stopping && !lease.aborted
    const parts = { ...runtime, workflows, definition, marks: own }
    if (checked === undefined) {
      await runCycle(parts, cycle, mayGoOn)
      await gauge?.measure(type)
    } else if (!isOwn(definition.target)) {
      await runChecks(parts, cycle, definition.target, mayGoOn)
    }
  }

  /** A database that is restored to an earlier state under a live worker knows nothing of its cycles: nothing would be due. */
  async function noteAgain(): Promise<void> {
    try {
      for (const definition of noted) await noteDispatch(db, definition)
    } catch (error) {
      logger.warn({ err: error }, 'could not record the item types of this worker')
    }
  }

  return {
    async grow({ addOwn }) {
      for (const definition of domains().flatMap((domain) => registry.inDomain(domain))) {
        if (noted.has(definition)) continue
        await noteDispatch(db, definition)
        noted.add(definition)
      }
      if (noting || noted.size === 0) return
      noting = setInterval(() => void noteAgain(), NOTED_EVERY).unref()
      const source = cycleSource(db.reserved, () => cyclesOf([...noted]))
      addOwn(loop({ source, run, concurrency: AT_ONCE, topic: 'dispatch', gate: 'none' }))
    },
    has: () => [...noted].map(({ name, version }) => ({ model: 'dispatch', name, version })),
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
