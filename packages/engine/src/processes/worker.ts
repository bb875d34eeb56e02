import { setMaxListeners } from 'node:events'
import type { Outgoing } from '../commands/index.js'
import { databaseUptimeMs } from '../kernel/clock/clock.js'
import type { Database } from '../kernel/database/database.js'
import type { Logger } from '../kernel/logger.js'
import type { Metrics } from '../kernel/metrics/metrics.js'
import type { Listener } from '../kernel/notify/listener.js'
import { createTopics, type Topics } from '../kernel/notify/topics.js'
import type { Reports } from '../kernel/reports/reports.js'
import type { Gate } from '../kernel/work/alone.js'
import type { Lease } from '../kernel/work/leases.js'
import { createWorkLoop, type WorkLoop } from '../kernel/work/loop.js'
import type { Claimed, WorkSource } from '../kernel/work/source.js'
import type { ProcessEngine } from './engine.js'
import { executionClock } from './execution/clock.js'
import { runProcess } from './executor.js'
import { handOver, inboxSource } from './inbox.js'
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
  readonly outgoing: Outgoing
  readonly listener: Listener | undefined
  readonly gate: Gate
  readonly logger: Logger
  readonly metrics: Metrics
  readonly reports: Reports
}

/** What a worker does for the processes of one domain. */
export interface ProcessWork {
  /** Makes the loops for what was registered since; answers them, not started. */
  grow(): Promise<readonly WorkLoop[]>
  /** Says which definitions this worker has. */
  note(): Promise<void>
  stopping(): void
  close(): Promise<void>
}

/** Definitions with the same lease and poll share a loop; operators may set them per definition (P-23). */
interface Pace {
  readonly leaseMs: number
  readonly names: Set<string>
  readonly topics: Topics
}

/** The loops that run a domain's processes: executions, the inbox, replies to commands, step-based processes. */
export async function createProcessWork(
  domain: string,
  settings: WorkerSettings,
  { db, engine, outgoing, listener, gate, logger, metrics, reports }: Parts,
): Promise<ProcessWork> {
  const stop = new AbortController()
  // As many listen as steps wait for a slot.
  setMaxListeners(0, stop.signal)
  const definitions = () => engine.registry.inDomain(domain)
  const managers = () => engine.managers.inDomain(domain).map(({ definition }) => definition)
  const paces = new Map<string, Pace>()
  const inboxTopics = createTopics(listener)
  const managerTopics = createTopics(listener)
  const replies = await createReplyWork(domain, { db, engine, outgoing, logger, metrics, reports })
  let hasInbox = false
  let looksAfterManagers = false

  /** Made, and not answered yet: an attempt that fails half-way loses none. */
  const added: WorkLoop[] = []

  async function grow(): Promise<readonly WorkLoop[]> {
    if (!hasInbox) {
      added.push(inboxLoop())
      if (replies) added.push(replyLoop(replies))
      hasInbox = true
    }
    for (const definition of definitions()) {
      if ([...paces.values()].some(({ names }) => names.has(definition.name))) continue
      // Read when the definition is first run here.
      const { leaseMs = settings.leaseMs, pollMs = settings.pollMs } = await engine.settings.of(definition.name)
      const known = paces.get(`${leaseMs} ${pollMs}`)
      const pace = known ?? { leaseMs, names: new Set<string>(), topics: createTopics(listener) }
      pace.names.add(definition.name)
      pace.topics.add(`processes:${definition.name}`)
      inboxTopics.add(`process-inbox:${definition.name}`)
      if (known) continue
      paces.set(`${leaseMs} ${pollMs}`, pace)
      added.push(executionLoop(pace, pollMs))
    }
    for (const { name } of managers()) managerTopics.add(`processes:${name}`)
    if (replies && !looksAfterManagers && managers().length > 0) {
      looksAfterManagers = true
      added.push(loopOf(replies.due, { concurrency: 100, topics: managerTopics, run: replies.look }))
    }
    return added.splice(0)
  }

  function executionLoop({ leaseMs, names, topics }: Pace, pollMs: number): WorkLoop {
    const members = () => definitions().filter(({ name }) => names.has(name))
    topics.add('processes:live')
    topics.onWake(() => engine.live.look())
    const source = processSource(db.reserved, members)
    return loopOf(source, {
      leaseMs,
      pollMs,
      concurrency: settings.concurrency,
      topics,
      async run(item, lease) {
        const definition = engine.registry.find(item.type)
        if (!definition) return
        const parts = await engine.partsFor(definition, { inStarter: false, stop: stop.signal })
        // One that was lost before has begun, and must stay not released (K-19).
        if (item.beginBy !== undefined && !item.lost && performance.now() > item.beginBy) {
          await source.release([item])
          return
        }
        const now = executionClock(item.now)
        const rest = await runProcess(item, lease, parts, engine.live)
        // The last claim may have looked no further than the next poll: what is due before that is remembered here.
        const inMs = rest?.dueAt == null ? Number.POSITIVE_INFINITY : rest.dueAt - now()
        if (inMs < pollMs && !stop.signal.aborted)
          setTimeout(() => topics.wake(), Math.max(0, Math.ceil(inMs)) + 1).unref()
      },
    })
  }

  function inboxLoop(): WorkLoop {
    return loopOf(inboxSource(db.reserved, definitions), {
      concurrency: 100,
      topics: inboxTopics,
      run: handOver(db, {
        find: (name) => engine.registry.find(name),
        respond: engine.respond,
        codec: engine.codec,
        logger,
      }),
    })
  }

  function replyLoop({ source, topic, handOver: run }: NonNullable<typeof replies>): WorkLoop {
    const topics = createTopics(listener)
    topics.add(topic)
    return loopOf(source, { concurrency: 1_000, topics, run })
  }

  function loopOf<Item extends Claimed>(
    source: WorkSource<Item>,
    options: {
      readonly leaseMs?: number
      readonly pollMs?: number
      readonly concurrency: number
      readonly topics: Topics
      readonly run: (item: Item, lease: Lease<Item>) => Promise<void>
    },
  ): WorkLoop {
    const { topics, leaseMs = settings.leaseMs, pollMs = settings.pollMs, ...rest } = options
    return createWorkLoop({
      source,
      worker: settings.name,
      leaseMs,
      pollMs,
      databaseUptimeMs: () => databaseUptimeMs(db),
      onWake: (wake) => topics.onWake(wake),
      gate,
      logger,
      metrics,
      ...rest,
    })
  }

  return {
    grow,
    async note() {
      const leaseOf = (wanted: string) => [...paces.values()].find(({ names }) => names.has(wanted))?.leaseMs
      const rows = definitions().map(({ name, version, concurrency = null }) => ({
        type: name,
        version,
        leaseMs: leaseOf(name) ?? settings.leaseMs,
        limit: concurrency,
      }))
      const managed = managers().map(({ name, version }) => ({
        type: name,
        version,
        leaseMs: settings.leaseMs,
        limit: null,
      }))
      await noteDefinitions(db, [...rows, ...managed])
    },
    stopping() {
      stop.abort()
    },
    async close() {
      await replies?.close()
    },
  }
}
