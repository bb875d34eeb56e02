import type { Outgoing } from '../commands/index.js'
import { databaseUptimeMs } from '../kernel/clock/clock.js'
import type { Database } from '../kernel/database/database.js'
import type { Logger } from '../kernel/logger.js'
import type { Metrics } from '../kernel/metrics/metrics.js'
import type { Listener } from '../kernel/notify/listener.js'
import type { Reports } from '../kernel/reports/reports.js'
import type { Lease } from '../kernel/work/leases.js'
import { createWorkLoop, type WorkLoop } from '../kernel/work/loop.js'
import type { Claimed, WorkSource } from '../kernel/work/source.js'
import type { ProcessDefinition } from './define.js'
import type { ProcessEngine } from './engine.js'
import { executionClock } from './execution/clock.js'
import { runProcess } from './executor.js'
import { handOver, inboxSource } from './inbox.js'
import type { ManagerRegistry } from './managers/registry.js'
import { noteDefinitions } from './queries/note-definitions.js'
import { createReplyWork } from './replies.js'
import { processSource } from './source.js'

interface WorkerSettings {
  readonly name: string
  readonly concurrency: number
  readonly leaseMs: number
  readonly pollMs: number
}

interface Parts {
  readonly db: Database
  readonly engine: ProcessEngine
  readonly managers: ManagerRegistry
  readonly outgoing: Outgoing
  readonly listener: Listener | undefined
  readonly logger: Logger
  readonly metrics: Metrics
  readonly reports: Reports
}

/** The loops that run a domain's processes: executions, the inbox, replies to commands, step-based processes. */
export async function createProcessLoops(
  domain: string,
  settings: WorkerSettings,
  { db, engine, managers, outgoing, listener, logger, metrics, reports }: Parts,
): Promise<{ readonly loops: readonly WorkLoop[]; stopping(): void; close(): Promise<void> }> {
  let stopping = false
  const definitions = () => engine.registry.inDomain(domain)
  const groups = await byPace(definitions(), settings, engine)
  const executions = groups.map(({ leaseMs, pollMs, members }) => {
    const wakes = new Set<() => void>()
    return loopOf(processSource(db, members), {
      leaseMs,
      pollMs,
      concurrency: settings.concurrency,
      subscribe: (wake) => {
        wakes.add(wake)
        return subscribe(listener, ['processes:live', ...members().map(({ name }) => `processes:${name}`)], () => {
          engine.live.look()
          wake()
        })
      },
      async run(item, lease) {
        const definition = engine.registry.find(item.type)
        if (!definition) return
        const parts = await engine.partsFor(definition, { inStarter: false, stopping: () => stopping })
        const now = executionClock(item.now)
        const rest = await runProcess(item, lease, parts, engine.live)
        // The last claim may have looked no further than the next poll: what is due before that is remembered here.
        const inMs = rest?.dueAt == null ? Number.POSITIVE_INFINITY : rest.dueAt - now()
        if (inMs < pollMs && !stopping) setTimeout(() => wakeAll(wakes), Math.max(0, Math.ceil(inMs)) + 1).unref()
      },
    })
  })
  const inbox = loopOf(inboxSource(db, definitions), {
    leaseMs: settings.leaseMs,
    pollMs: settings.pollMs,
    concurrency: 100,
    subscribe: (wake) =>
      subscribe(
        listener,
        definitions().map(({ name }) => `process-inbox:${name}`),
        wake,
      ),
    run: handOver(db, {
      find: (name) => engine.registry.find(name),
      respond: engine.respond,
      codec: engine.codec,
      logger,
    }),
  })
  const replies = await createReplyWork(domain, { db, engine, managers, outgoing, logger, metrics, reports })

  function replyLoops(): WorkLoop[] {
    if (!replies) return []
    const { leaseMs, pollMs } = settings
    const { source, topic, handOver: run, due, look } = replies
    const handing = loopOf(source, {
      leaseMs,
      pollMs,
      concurrency: 1_000,
      subscribe: (wake) => subscribe(listener, [topic], wake),
      run,
    })
    if (managers.inDomain(domain).length === 0) return [handing]
    const topics = managers.inDomain(domain).map(({ name }) => `processes:${name}`)
    const looking = loopOf(due, {
      leaseMs,
      pollMs,
      concurrency: 100,
      subscribe: (wake) => subscribe(listener, topics, wake),
      run: look,
    })
    return [handing, looking]
  }

  function loopOf<Item extends Claimed>(
    source: WorkSource<Item>,
    options: {
      readonly leaseMs: number
      readonly pollMs: number
      readonly concurrency: number
      readonly subscribe: (wake: () => void) => () => void
      readonly run: (item: Item, lease: Lease<Item>) => Promise<void>
    },
  ): WorkLoop {
    const { subscribe: onWake, ...rest } = options
    return createWorkLoop({
      source,
      worker: settings.name,
      databaseUptimeMs: () => databaseUptimeMs(db),
      onWake,
      logger,
      metrics,
      ...rest,
    })
  }

  const noted = () =>
    groups.flatMap(({ leaseMs, members }) =>
      members().map(({ name, version, concurrency = null }) => ({ type: name, version, leaseMs, limit: concurrency })),
    )
  await noteDefinitions(db, noted())

  return {
    loops: [...executions, noting(inbox, () => noteDefinitions(db, noted()), logger), ...replyLoops()],
    stopping() {
      stopping = true
    },
    async close() {
      await replies?.close()
    },
  }
}

const SEEN_EVERY = 60_000

/** A loop that also says now and then which definitions have a worker. */
function noting(loop: WorkLoop, note: () => Promise<void>, logger: Logger): WorkLoop {
  let timer: NodeJS.Timeout | undefined
  const noteAgain = () =>
    note().catch((error: unknown) => logger.warn({ err: error }, 'could not note the definitions of this worker'))
  return {
    start() {
      loop.start()
      timer ??= setInterval(() => void noteAgain(), SEEN_EVERY).unref()
    },
    stop(timeout) {
      clearInterval(timer)
      return loop.stop(timeout)
    },
    stopNow() {
      clearInterval(timer)
      loop.stopNow()
    },
    get isRunning() {
      return loop.isRunning
    },
    get inFlight() {
      return loop.inFlight
    },
  }
}

function wakeAll(wakes: ReadonlySet<() => void>): void {
  for (const wake of wakes) wake()
}

function subscribe(listener: Listener | undefined, topics: readonly string[], wake: () => void): () => void {
  const ends = listener ? topics.map((topic) => listener.subscribe(topic, wake)) : []
  return () => {
    for (const end of ends) end()
  }
}

/** Definitions whose lease or poll an operator has set get a loop of their own (P-23); read when the worker starts. */
async function byPace(definitions: readonly ProcessDefinition[], worker: WorkerSettings, engine: ProcessEngine) {
  const groups = new Map<string, { leaseMs: number; pollMs: number; names: Set<string> }>()
  for (const { name } of definitions) {
    const { leaseMs = worker.leaseMs, pollMs = worker.pollMs } = await engine.settings.of(name)
    const pace = `${leaseMs} ${pollMs}`
    const group = groups.get(pace) ?? { leaseMs, pollMs, names: new Set<string>() }
    group.names.add(name)
    groups.set(pace, group)
  }
  return [...groups.values()].map(({ leaseMs, pollMs, names }) => {
    const members = definitions.filter(({ name }) => names.has(name))
    return { leaseMs, pollMs, members: () => members }
  })
}
