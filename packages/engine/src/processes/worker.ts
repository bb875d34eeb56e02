// What one worker does for processes and managers: it adds the loops of each domain as definitions are registered.
// `worker.ts` of the engine calls it. Definitions with the same lease and poll interval share a loop. It must never
// claim a type that has no definition here.

import { setMaxListeners } from 'node:events'
import type { Outgoing } from '../commands/index.js'
import {
  type Claimed,
  createTopics,
  type Lease,
  type ModelWork,
  type Runtime,
  type Topics,
  type WorkerDefinition,
  type WorkerParts,
  type WorkLoop,
  type WorkSource,
} from '../kernel/model/index.js'
import type { ProcessEngine } from './engine.js'
import { executionClock } from './execution/clock.js'
import { runProcess } from './executor.js'
import { handOver, inboxSource } from './inbox.js'
import { freeUnlimited } from './queries/free-unlimited.js'
import { createReplyWork } from './replies.js'
import { processSource } from './source.js'

interface ProcessParts {
  readonly engine: ProcessEngine
  readonly outgoing: Outgoing
}

/** What a worker does for processes and managers, domain by domain. */
export function processWork(runtime: Runtime, parts: ProcessParts, worker: WorkerParts): ModelWork {
  const { registry, managers } = parts.engine
  const works = new Map<string, DomainWork>()
  return {
    async grow({ add }) {
      for (const domain of worker.domains()) {
        if (registry.inDomain(domain).length === 0 && managers.inDomain(domain).length === 0) continue
        const work = works.get(domain) ?? (await createDomainWork(domain, worker, { ...runtime, ...parts }))
        works.set(domain, work)
        await work.grow(add)
      }
    },
    has: () => [...works.values()].flatMap((work) => work.has()),
    async beaten() {
      for (const work of works.values()) await work.beaten()
    },
    stopping() {
      for (const work of works.values()) work.stopping()
    },
    async close() {
      await Promise.all([...works.values()].map((work) => work.close()))
    },
  }
}

/** The same for one domain. */
interface DomainWork {
  grow(add: (loop: WorkLoop) => void): Promise<void>
  has(): readonly WorkerDefinition[]
  beaten(): Promise<void>
  stopping(): void
  close(): Promise<void>
}

/** Definitions with the same lease and poll share a loop; operators may set them per definition. */
interface Pace {
  readonly leaseMs: number
  readonly names: Set<string>
  readonly topics: Topics
}

/** The loops that run a domain's processes: executions, the inbox, replies to commands, step-based processes. */
async function createDomainWork(
  domain: string,
  { settings, listener, loop }: WorkerParts,
  parts: Runtime & ProcessParts,
): Promise<DomainWork> {
  const { db, engine, logger, metrics } = parts
  const stop = new AbortController()
  // As many listen as steps wait for a slot.
  setMaxListeners(0, stop.signal)
  const definitions = () => engine.registry.inDomain(domain)
  const managers = () => engine.managers.inDomain(domain).map(({ definition }) => definition)
  const paces = new Map<string, Pace>()
  const inboxTopics = createTopics(listener)
  const managerTopics = createTopics(listener)
  const replies = await createReplyWork(domain, parts)
  let hasInbox = false
  let looksAfterManagers = false

  async function grow(add: (loop: WorkLoop) => void): Promise<void> {
    if (!hasInbox) {
      add(inboxLoop())
      if (replies) add(replyLoop(replies))
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
      add(executionLoop(pace, pollMs))
    }
    for (const { name } of managers()) managerTopics.add(`processes:${name}`)
    if (replies && !looksAfterManagers && managers().length > 0) {
      looksAfterManagers = true
      add(loopOf(replies.due, { concurrency: 100, topics: managerTopics, run: replies.look }))
    }
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
        const own = await engine.partsFor(definition, { inStarter: false, stop: stop.signal })
        // One that was lost before has begun, and must stay not released (K-19).
        if (item.beginBy !== undefined && !item.lost && performance.now() > item.beginBy) {
          await source.release([item])
          return
        }
        const now = executionClock(item.now)
        const rest = await runProcess(item, lease, own, engine.live)
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
        metrics,
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
    const { topics, ...rest } = options
    return loop({ source, onWake: (wake) => topics.onWake(wake), ...rest })
  }

  return {
    grow,
    has() {
      const leaseOf = (wanted: string) => [...paces.values()].find(({ names }) => names.has(wanted))?.leaseMs
      return [...definitions(), ...managers()].map(({ name, version }) => ({
        model: 'processes',
        name,
        version,
        leaseMs: leaseOf(name) ?? settings.leaseMs,
      }))
    },
    async beaten() {
      const unlimited = definitions().filter(({ concurrency }) => concurrency === undefined)
      await freeUnlimited(
        db,
        [...unlimited, ...managers()].map(({ name }) => name),
      )
    },
    stopping() {
      stop.abort()
    },
    async close() {
      await replies?.close()
    },
  }
}
