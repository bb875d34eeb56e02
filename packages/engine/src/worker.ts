import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  batchSource,
  commandChores,
  createCommandWorker,
  type Domains,
  type HandlerRegistry,
  noteHandlers,
  type Outgoing,
} from './commands/index.js'
import { createDispatchWork, type DispatchRegistry, type DispatchWork, dispatchChores } from './dispatch/index.js'
import { choreSource, kernelChores, runChore } from './kernel/chores/chores.js'
import { databaseUptimeMs } from './kernel/clock/clock.js'
import type { Codec } from './kernel/codec/codec.js'
import type { Database } from './kernel/database/database.js'
import type { Duration } from './kernel/duration/duration.js'
import { HoldfastError } from './kernel/errors.js'
import { newId } from './kernel/ids/id.js'
import type { Logger } from './kernel/logger.js'
import type { Metrics } from './kernel/metrics/metrics.js'
import { type Listener, startListener } from './kernel/notify/listener.js'
import { createPresence } from './kernel/presence/presence.js'
import type { Reports } from './kernel/reports/reports.js'
import { createBackoff } from './kernel/retry/backoff.js'
import { type Retry, retryOption } from './kernel/retry/retry-option.js'
import { normalizeRetryPolicy } from './kernel/retry/retry-policy.js'
import { describe } from './kernel/validation/describe.js'
import { invalidOption } from './kernel/validation/invalid-option.js'
import { booleanOption, checkOptions, durationOption, integerOption, textOption } from './kernel/validation/options.js'
import type { Gate } from './kernel/work/alone.js'
import { createWorkLoop, type WorkLoop } from './kernel/work/loop.js'
import type { Claimed, WorkSource } from './kernel/work/source.js'
import { type Limiter, limiterChores } from './limiter/index.js'
import { measureNeedingPerson } from './needing-person.js'
import { createProcessWork, type ProcessEngine, type ProcessWork } from './processes/index.js'
import { createWorkflowWork, type WorkflowEngine, type WorkflowWork, workflowChores } from './workflows/index.js'

export interface WorkerOptions {
  /** The domains whose commands and processes it runs; all that are registered here, now or later, unless given. */
  readonly domains?: readonly string[]
  /** Whether it runs the steps of workflows whose handlers are registered here; yes, unless `domains` is given. */
  readonly workflows?: boolean
  /** Shown to operators beside what this worker holds; host, process and a random part by default. */
  readonly name?: string
  /** How many items of a domain run at once, 4 by default. */
  readonly concurrency?: number
  /** How long a claim lasts without a heartbeat (PGMQ's visibility timeout), 30 s by default. */
  readonly lease?: Duration
  /** How long an idle worker waits before it looks again by itself, 1 s by default. */
  readonly poll?: Duration
  /** Be woken by LISTEN/NOTIFY (default), or poll only. */
  readonly notify?: boolean
  /** How long a handler may take, for commands that do not say it themselves; as long as it likes by default. */
  readonly handlerTimeout?: Duration
  /** For commands that do not say it themselves: 3 attempts, after 10, 60 and 300 s. */
  readonly retry?: Retry
}

export interface Worker {
  readonly name: string
  /** Those of which it runs commands and processes by now. */
  readonly domains: readonly string[]
  /** Begins to claim. A second call is harmless; a stopped worker stays stopped. */
  start(): Promise<void>
  /** Claims nothing more and waits for what is running; after the timeout (30 s by default) it is abandoned. */
  stop(timeout?: Duration): Promise<{ readonly abandoned: number }>
  /** Aborts what is running and waits for nobody; others carry on when the leases end. */
  stopNow(): void
  /** False before it starts, and from the moment it is told to stop. */
  readonly isRunning: boolean
  /** Handlers and processes that are running. */
  readonly inFlightCount: number
}

/** A worker of one domain. */
export interface DomainWorker extends Worker {
  readonly domain: string
}

interface Parts {
  readonly registry: HandlerRegistry
  readonly queues: Domains
  readonly engine: ProcessEngine
  readonly workflows: WorkflowEngine
  readonly dispatches: DispatchRegistry
  readonly limiter: Limiter
  readonly outgoing: Outgoing
  readonly codec: Codec
  readonly logger: Logger
  readonly metrics: Metrics
  readonly reports: Reports
  readonly abortGraceMs: number
  readonly inquireForMs: number
  readonly gate: Gate
}

/** A worker, and what its installation tells it. */
interface CreatedWorker {
  readonly worker: Worker
  /** Something was registered, which the worker may have to run. */
  readonly registered: () => void
}

/** One worker: a loop per domain of commands, one that closes batches, one for the housekeeping. Not started yet. */
export function createWorker(db: Database, options: WorkerOptions | undefined, parts: Parts): CreatedWorker {
  const { registry, queues, engine, workflows, dispatches, limiter, outgoing, codec } = parts
  const { logger, metrics, reports, gate } = parts
  const known = () => [
    ...new Set([
      ...registry.domains(),
      ...engine.registry.domains(),
      ...engine.managers.domains(),
      ...dispatches.domains(),
    ]),
  ]
  const settings = checkWorkerOptions(options, known())
  const domains = () => settings.domains ?? known()
  const chores = {
    ...kernelChores,
    ...commandChores(reports),
    ...limiterChores,
    ...workflowChores({ logger, metrics }),
    ...dispatchChores,
  }
  const commands = new Map<string, WorkLoop>()
  const processes = new Map<string, ProcessWork>()
  const loops: WorkLoop[] = []
  let unstarted: WorkLoop[] = []
  /** Those that run handlers and processes, for `inFlightCount`. */
  const running: WorkLoop[] = []
  const presence = createPresence(db, { note, logger })
  let listener: Listener | undefined
  let workflowWork: WorkflowWork | undefined
  let dispatching: DispatchWork | undefined
  let needing: { stop(): void } | undefined
  let starting: Promise<void> | undefined
  let growing: Promise<void> = Promise.resolve()
  let begun = false
  let stopped = false

  async function begin(): Promise<void> {
    listener ??= settings.notify ? startListener(db, { logger }) : undefined
    await grow()
    await presence.begin()
    if (stopped) return
    unstarted.push(
      kernelLoop('chores', choreSource(db.reserved, chores), runChore(db, chores, logger)),
      kernelLoop('batches', batchSource(db), async () => undefined),
    )
    startAll()
    needing = measureNeedingPerson(db, { metrics, logger })
    begun = true
    // What was registered while it began.
    registered()
  }

  /** Makes loops for what is registered here and has none yet. One that failed half-way goes on where it stopped. */
  async function grow(): Promise<void> {
    const make = (made: readonly WorkLoop[]) => {
      running.push(...made)
      unstarted.push(...made)
    }
    for (const domain of domains()) {
      if (registry.domains().includes(domain) && !commands.has(domain)) {
        const queue = await queues.ready(domain)
        const loop = createCommandWorker(domain, settings, {
          db,
          queue,
          registry,
          codec,
          listener,
          logger,
          metrics,
          reports,
          abortGraceMs: parts.abortGraceMs,
          inquireForMs: parts.inquireForMs,
          gate,
        })
        commands.set(domain, loop)
        make([loop])
      }
      if (engine.registry.domains().includes(domain) || engine.managers.domains().includes(domain)) {
        const shared = { db, engine, outgoing, listener, gate, logger, metrics, reports }
        const work = processes.get(domain) ?? (await createProcessWork(domain, settings, shared))
        processes.set(domain, work)
        make(await work.grow())
      }
    }
    if (settings.workflows) {
      if (workflowWork) await workflowWork.grow()
      else {
        workflowWork = await createWorkflowWork(settings, { db, engine: workflows, listener, gate, logger, metrics })
        make([workflowWork.loop])
      }
    }
    const cycleParts = { db, registry: dispatches, limiter, codec, workflows, listener, logger, metrics, reports }
    dispatching ??= createDispatchWork({ ...settings, domains }, cycleParts)
    unstarted.push(...(await dispatching.grow()))
  }

  function startAll(): void {
    for (const loop of unstarted) {
      loops.push(loop)
      loop.start()
    }
    unstarted = []
  }

  /** Says what this worker has, before it claims any of it and every minute (O-11). */
  async function note(): Promise<void> {
    for (const domain of commands.keys()) await noteHandlers(db, domain, registry.types(domain))
    for (const work of processes.values()) await work.note()
    await workflowWork?.note()
  }

  function registered(): void {
    if (begun && !stopped) growing = growing.then(growLater)
  }

  /** Until it is done: a database that is away for a while must not leave a definition without a worker. */
  async function growLater(): Promise<void> {
    const backoff = createBackoff({ base: 100, cap: 1_000 })
    while (!stopped) {
      try {
        await grow()
        if (stopped) return
        presence.changed()
        return startAll()
      } catch (error) {
        logger.warn({ err: error }, 'could not take up what was registered; trying again')
        await sleep(backoff.next(), undefined, { ref: false })
      }
    }
  }

  function kernelLoop(topic: string, source: WorkSource<Claimed>, run: (item: Claimed) => Promise<void>): WorkLoop {
    return createWorkLoop({
      source,
      run,
      worker: settings.name,
      concurrency: 1,
      leaseMs: settings.leaseMs,
      pollMs: settings.pollMs,
      databaseUptimeMs: () => databaseUptimeMs(db),
      gate: 'none',
      ...wakeBy(listener, topic),
      logger,
      metrics,
    })
  }

  const worker: Worker = {
    name: settings.name,
    get domains() {
      return domains()
    },
    async start() {
      if (stopped) throw new HoldfastError('HF_STOPPED', { what: `the worker ${settings.name}` })
      // A start that failed may be tried again.
      starting ??= begin().catch((error) => {
        starting = undefined
        throw error
      })
      await starting
    },
    async stop(timeout) {
      const limit = durationOption('stop', 'timeout', timeout, { default: '30s' })
      stopped = true
      presence.stop()
      await starting?.catch(() => undefined)
      needing?.stop()
      await growing
      for (const work of processes.values()) work.stopping()
      dispatching?.stopping()
      const answers = await Promise.all(loops.map((loop) => loop.stop(limit)))
      await Promise.all([...processes.values()].map((work) => work.close()))
      await listener?.close()
      return { abandoned: answers.reduce((sum, { abandoned }) => sum + abandoned, 0) }
    },
    stopNow() {
      stopped = true
      needing?.stop()
      presence.stop()
      for (const loop of loops) loop.stopNow()
      void listener?.close()
    },
    get isRunning() {
      return !stopped && loops.length > 0 && loops.every((loop) => loop.isRunning)
    },
    get inFlightCount() {
      return running.reduce((sum, loop) => sum + loop.inFlight, 0)
    },
  }
  return { worker, registered }
}

const wakeBy = (listener: Listener | undefined, topic: string) =>
  listener ? { onWake: (wake: () => void) => listener.subscribe(topic, wake) } : {}

const KNOWN_OPTIONS = [
  'domains',
  'workflows',
  'name',
  'concurrency',
  'lease',
  'poll',
  'notify',
  'handlerTimeout',
  'retry',
] as const satisfies readonly (keyof WorkerOptions)[]

const DEFAULT_RETRY = normalizeRetryPolicy(['10s', '60s', '300s'])

function checkWorkerOptions(options: WorkerOptions | undefined, known: readonly string[]) {
  const given = checkOptions('run', options, KNOWN_OPTIONS)
  const retry = retryOption('run', 'retry', given.retry)
  return {
    domains: checkDomains(options?.domains, known),
    workflows: booleanOption('run', 'workflows', given.workflows, { default: options?.domains === undefined }),
    name: textOption('run', 'name', given.name, {
      max: 200,
      default: `${hostname()}:${process.pid}:${newId().slice(-6)}`,
    }),
    concurrency: integerOption('run', 'concurrency', given.concurrency, { min: 1, max: 100_000, default: 4 }),
    leaseMs: durationOption('run', 'lease', given.lease, { min: '100ms', max: '1d', default: '30s' }),
    pollMs: durationOption('run', 'poll', given.poll, { min: '10ms', max: '1h', default: '1s' }),
    notify: booleanOption('run', 'notify', given.notify, { default: true }),
    timeoutMs: durationOption('run', 'handlerTimeout', given.handlerTimeout, {
      min: '1ms',
      max: '24d',
      default: undefined,
    }),
    maxAttempts: retry.maxAttempts ?? 3,
    retry: retry.policy ?? DEFAULT_RETRY,
  }
}

/** Undefined: all that are registered here, also later. */
function checkDomains(domains: readonly string[] | undefined, known: readonly string[]): readonly string[] | undefined {
  if (domains !== undefined && !Array.isArray(domains)) {
    throw invalidOption('run', 'domains', `must be a list of domains, not ${describe(domains)}`)
  }
  for (const domain of domains ?? []) {
    if (known.includes(domain)) continue
    throw invalidOption(
      'run',
      'domains',
      `names \`${domain}\`, which has no handler and no process here; register one with hf.handle or hf.register first`,
    )
  }
  return domains === undefined ? undefined : [...new Set(domains)]
}
