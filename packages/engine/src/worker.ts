import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Chores, choreSource, kernelChores, runChore } from './kernel/chores/chores.js'
import { type Duration, LONGEST_TIMER } from './kernel/duration/duration.js'
import { HoldfastError } from './kernel/errors.js'
import { newId } from './kernel/ids/id.js'
import { createWorkerParts, type InstalledModel, type ModelWork } from './kernel/model/model.js'
import type { Runtime } from './kernel/model/runtime.js'
import { type Listener, startListener } from './kernel/notify/listener.js'
import { createPresence } from './kernel/presence/presence.js'
import { createBackoff } from './kernel/retry/backoff.js'
import { type Retry, retryOption } from './kernel/retry/retry-option.js'
import { normalizeRetryPolicy } from './kernel/retry/retry-policy.js'
import { anything, boolean, declareOptions, duration, integer, text } from './kernel/validation/declared.js'
import { describe } from './kernel/validation/describe.js'
import { invalidOption } from './kernel/validation/invalid-option.js'
import { durationOption } from './kernel/validation/options.js'
import type { WorkLoop } from './kernel/work/loop.js'
import { limiterChores } from './limiter/index.js'
import { measureNeedingPerson } from './trouble/index.js'

export interface WorkerOptions {
  /** The domains whose commands, processes and workflows it runs. Default: all that are registered here, now or later. */
  readonly domains?: readonly string[]
  /**
   * Whether it runs the steps of workflows whose handlers are registered here. Default: yes; where `domains` is given, those handlers
   * that workflows of these domains use, as far as they are registered here or were given to `hf.handle` with their handlers.
   */
  readonly workflows?: boolean
  /** Shown to operators beside the work of this worker. Default: host, process and a random part. */
  readonly name?: string
  /** How many items of a domain run at once. Default: 4. */
  readonly concurrency?: number
  /** How long a claim lasts without a heartbeat (PGMQ's visibility timeout). Default: 30 s. */
  readonly lease?: Duration
  /** How often an idle worker polls if no notification comes. Default: 1 s. */
  readonly poll?: Duration
  /** Whether LISTEN/NOTIFY wakes it up. False: it only polls. Default: true. */
  readonly notify?: boolean
  /** How long a handler may take, for commands without a `timeout`. Default: no limit. */
  readonly handlerTimeout?: Duration
  /** For commands without `retry`. Default: 3 attempts, after 10, 60 and 300 s. */
  readonly retry?: Retry
}

export interface Worker {
  readonly name: string
  /** The domains whose commands and processes it runs now. */
  readonly domains: readonly string[]
  /** Begins to claim. A second call does nothing; a stopped worker stays stopped. */
  start(): Promise<void>
  /** Claims nothing more and waits for running work, which is abandoned after the timeout. Default: 30 s. */
  stop(timeout?: Duration): Promise<{ readonly abandoned: number }>
  /** Aborts running work and does not wait for it; other workers continue when the leases end. */
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

/** A worker, and what its installation tells it. */
interface CreatedWorker {
  readonly worker: Worker
  /** Something was registered, which the worker may have to run. */
  readonly registered: () => void
}

/** One worker: the loops of all models, and one for the housekeeping. Not started yet. */
export function createWorker(
  runtime: Runtime,
  models: readonly InstalledModel[],
  options: WorkerOptions | undefined,
): CreatedWorker {
  const { db, logger, metrics } = runtime
  const known = () => [...new Set(models.flatMap((model) => model.domains()))]
  const settings = checkWorkerOptions(options, known())
  const domains = () => settings.domains ?? known()
  const chores: Chores = Object.assign({}, kernelChores, limiterChores, ...models.map((model) => model.chores))
  const loops: WorkLoop[] = []
  let unstarted: WorkLoop[] = []
  /** Those that run handlers and processes, for `inFlightCount`. */
  const running: WorkLoop[] = []
  const presence = createPresence(db, {
    worker: settings.name,
    has: () => works.flatMap((work) => work.has?.() ?? []),
    beaten: async () => {
      for (const work of works) await work.beaten?.()
    },
    logger,
  })
  let works: readonly ModelWork[] = []
  let listener: Listener | undefined
  let needing: { stop(): void } | undefined
  let starting: Promise<void> | undefined
  let growing: Promise<void> = Promise.resolve()
  let begun = false
  let stopped = false

  async function begin(): Promise<void> {
    listener ??= settings.notify ? startListener(db, { logger }) : undefined
    const parts = createWorkerParts(runtime, settings, { domains, listener })
    if (works.length === 0) works = models.map((model) => model.work(parts))
    await grow()
    await presence.begin()
    if (stopped) return
    const source = choreSource(db.reserved, chores)
    const run = runChore(db, chores, logger)
    unstarted.push(parts.loop({ source, run, concurrency: 1, topic: 'chores', gate: 'none' }))
    startAll()
    needing = measureNeedingPerson(db, { metrics, logger })
    begun = true
    // What was registered while it began.
    registered()
  }

  /** Makes loops for what is registered here and has none yet. One that failed half-way continues where it stopped. */
  async function grow(): Promise<void> {
    const addOwn = (loop: WorkLoop) => void unstarted.push(loop)
    const add = (loop: WorkLoop) => {
      running.push(loop)
      unstarted.push(loop)
    }
    for (const work of works) await work.grow({ add, addOwn })
  }

  function startAll(): void {
    for (const loop of unstarted) {
      loops.push(loop)
      loop.start()
    }
    unstarted = []
  }

  function registered(): void {
    if (begun && !stopped) growing = growing.then(growLater)
  }

  /** Repeated until it succeeds: an outage of the database must not leave a definition without a worker. */
  async function growLater(): Promise<void> {
    const backoff = createBackoff({ base: 100, cap: 1_000 })
    while (!stopped) {
      try {
        await grow()
        if (stopped) return
        presence.changed()
        return startAll()
      } catch (error) {
        logger.warn({ err: error }, 'could not start loops for new registrations; trying again')
        await sleep(backoff.next(), undefined, { ref: false })
      }
    }
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
      for (const work of works) work.stopping?.()
      const answers = await Promise.all(loops.map((loop) => loop.stop(limit)))
      await Promise.all(works.map(async (work) => work.close?.()))
      if (begun) await presence.end()
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

const DEFAULT_RETRY = normalizeRetryPolicy(['10s', '60s', '300s'])

const checkGiven = declareOptions({
  domains: anything,
  workflows: boolean(),
  name: text({ max: 200 }),
  concurrency: integer({ min: 1, max: 100_000, default: 4 }),
  lease: duration({ min: '100ms', max: '1d', default: '30s' }),
  poll: duration({ min: '10ms', max: '1h', default: '1s' }),
  notify: boolean({ default: true }),
  handlerTimeout: duration({ min: '1ms', max: LONGEST_TIMER }),
  retry: retryOption,
})

function checkWorkerOptions(options: WorkerOptions | undefined, known: readonly string[]) {
  const { name, lease, poll, handlerTimeout, retry, workflows, ...given } = checkGiven('run', options)
  return {
    ...given,
    domains: checkDomains(options?.domains, known),
    workflows: workflowsOf(workflows, options?.domains !== undefined),
    name: name ?? workerName(),
    leaseMs: lease,
    pollMs: poll,
    timeoutMs: handlerTimeout,
    maxAttempts: retry.maxAttempts ?? 3,
    retry: retry.policy ?? DEFAULT_RETRY,
  }
}

/** Which steps of workflows a worker runs: of all handlers that are here, of those of its domains, or none. */
function workflowsOf(given: boolean | undefined, hasDomains: boolean): 'all' | 'ofDomains' | 'none' {
  if (given === undefined) return hasDomains ? 'ofDomains' : 'all'
  return given ? 'all' : 'none'
}

/** Host, process and a random part. */
export const workerName = () => `${hostname()}:${process.pid}:${newId().slice(-6)}`

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
      `names \`${domain}\`, which has no handler, process or workflow here; register one with hf.handle or hf.register first`,
    )
  }
  return domains === undefined ? undefined : [...new Set(domains)]
}
