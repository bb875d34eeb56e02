import { hostname } from 'node:os'
import {
  batchSource,
  commandChores,
  createCommandWorker,
  type Domains,
  type HandlerRegistry,
  noteHandlers,
  type Outgoing,
} from './commands/index.js'
import { createDispatchLoop, type DispatchRegistry } from './dispatch/index.js'
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
import type { Reports } from './kernel/reports/reports.js'
import { checkMaxAttempts, normalizeRetryPolicy, type RetryPolicyInput } from './kernel/retry/retry-policy.js'
import { describe } from './kernel/validation/describe.js'
import { booleanOption, checkOptions, durationOption, integerOption, textOption } from './kernel/validation/options.js'
import { createWorkLoop, type WorkLoop } from './kernel/work/loop.js'
import type { Claimed, WorkSource } from './kernel/work/source.js'
import { type Limiter, limiterChores } from './limiter/index.js'
import { createProcessLoops, type ManagerRegistry, type ProcessEngine } from './processes/index.js'
import { createWorkflowLoop, type WorkflowEngine, workflowChores } from './workflows/index.js'

export interface WorkerOptions {
  /** The domains whose commands and processes it runs; all that are registered here unless given. */
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
  readonly maxAttempts?: number
  readonly retry?: RetryPolicyInput
}

export interface Worker {
  readonly name: string
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
  readonly managers: ManagerRegistry
  readonly workflows: WorkflowEngine
  readonly dispatches: DispatchRegistry
  readonly limiter: Limiter
  readonly outgoing: Outgoing
  readonly codec: Codec
  readonly logger: Logger
  readonly metrics: Metrics
  readonly reports: Reports
}

/** One worker: a loop per domain of commands, one that closes batches, one for the housekeeping. Not started yet. */
export function createWorker(db: Database, options: WorkerOptions | undefined, parts: Parts): Worker {
  const {
    registry,
    queues,
    engine,
    managers,
    workflows,
    dispatches,
    limiter,
    outgoing,
    codec,
    logger,
    metrics,
    reports,
  } = parts
  const processDomains = () => [...engine.registry.domains(), ...managers.domains()]
  const settings = checkWorkerOptions(options, [...registry.domains(), ...processDomains(), ...dispatches.domains()])
  const chores = { ...kernelChores, ...commandChores, ...limiterChores, ...workflowChores({ logger, metrics }) }
  let listener: Listener | undefined
  let commandLoops: readonly WorkLoop[] = []
  let processes: readonly Awaited<ReturnType<typeof createProcessLoops>>[] = []
  let workflowLoops: readonly WorkLoop[] = []
  let dispatching: Awaited<ReturnType<typeof createDispatchLoop>> | undefined
  let loops: readonly WorkLoop[] = []
  let starting: Promise<void> | undefined
  let stopped = false

  async function begin(): Promise<void> {
    const commandDomains = settings.domains.filter((domain) => registry.domains().includes(domain))
    await Promise.all(commandDomains.map((domain) => queues.ready(domain)))
    for (const domain of commandDomains) await noteHandlers(db, domain, registry.types(domain))
    if (stopped) return
    listener = settings.notify ? startListener(db, { logger }) : undefined
    commandLoops = commandDomains.map((domain) => {
      const queue = queues.queueOf(domain)
      return createCommandWorker(domain, settings, { db, queue, registry, codec, listener, logger, metrics, reports })
    })
    processes = await Promise.all(
      settings.domains
        .filter((domain) => processDomains().includes(domain))
        .map((domain) =>
          createProcessLoops(domain, settings, { db, engine, managers, outgoing, listener, logger, metrics, reports }),
        ),
    )
    workflowLoops = settings.workflows
      ? [await createWorkflowLoop(settings, { db, engine: workflows, listener, logger, metrics })]
      : []
    const cycleParts = {
      db,
      registry: dispatches,
      limiter,
      codec,
      workflows,
      listener,
      logger,
      metrics,
      reports,
    }
    dispatching = await createDispatchLoop(settings, cycleParts)
    loops = [
      kernelLoop('chores', choreSource(db, chores), runChore(db, chores, logger)),
      kernelLoop('batches', batchSource(db), async () => undefined),
      ...commandLoops,
      ...processes.flatMap((domain) => domain.loops),
      ...workflowLoops,
      ...dispatching.loops,
    ]
    for (const loop of loops) loop.start()
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

  return {
    name: settings.name,
    domains: settings.domains,
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
      await starting
      for (const domain of processes) domain.stopping()
      dispatching?.stopping()
      const answers = await Promise.all(loops.map((loop) => loop.stop(limit)))
      await Promise.all(processes.map((domain) => domain.close()))
      await listener?.close()
      return { abandoned: answers.reduce((sum, { abandoned }) => sum + abandoned, 0) }
    },
    stopNow() {
      stopped = true
      for (const loop of loops) loop.stopNow()
      void listener?.close()
    },
    get isRunning() {
      return !stopped && loops.length > 0 && loops.every((loop) => loop.isRunning)
    },
    get inFlightCount() {
      const running = [...commandLoops, ...processes.flatMap((domain) => domain.loops), ...workflowLoops]
      return running.reduce((sum, loop) => sum + loop.inFlight, 0)
    },
  }
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
  'maxAttempts',
  'retry',
] as const satisfies readonly (keyof WorkerOptions)[]

function checkWorkerOptions(options: WorkerOptions | undefined, known: readonly string[]) {
  const given = checkOptions('run', options, KNOWN_OPTIONS)
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
    maxAttempts: given.maxAttempts === undefined ? 3 : checkMaxAttempts('run', given.maxAttempts),
    retry: normalizeRetryPolicy(given.retry ?? ['10s', '60s', '300s'], 'run'),
  }
}

function checkDomains(domains: readonly string[] | undefined, known: readonly string[]): readonly string[] {
  if (domains !== undefined && !Array.isArray(domains)) {
    const problem = `must be a list of domains, not ${describe(domains)}`
    throw new HoldfastError('HF_INVALID_OPTION', { where: 'run', option: 'domains', problem })
  }
  for (const domain of domains ?? []) {
    if (known.includes(domain)) continue
    const problem = `names \`${domain}\`, which has no handler and no process here; register one with hf.handle or hf.register first`
    throw new HoldfastError('HF_INVALID_OPTION', { where: 'run', option: 'domains', problem })
  }
  return [...new Set(domains ?? known)]
}
