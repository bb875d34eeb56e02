import { setTimeout as sleep } from 'node:timers/promises'
import { HoldfastError } from '../errors.js'
import { type Logger, silentLogger } from '../logger.js'
import { type Metrics, noMetrics } from '../metrics/metrics.js'
import { createAppetite } from './appetite.js'
import { createClaimer } from './claimer.js'
import { startHeartbeat } from './heartbeat.js'
import { createLeases, type Lease } from './leases.js'
import { createSignal } from './signal.js'
import type { Claimed, WorkSource } from './source.js'
import { createSurveys, enterLoop, leaveLoop, type SurveyedLoop } from './surveys.js'

export interface WorkLoopOptions<Item extends Claimed> {
  readonly source: WorkSource<Item>
  /**
   * Runs one item to its end and records it. What it throws is logged and leaves the item to the end of its lease: a
   * model turns failures of user code into records itself.
   */
  readonly run: (item: Item, lease: Lease<Item>) => Promise<void>
  /** Who claims: shown to operators beside what it holds. */
  readonly worker: string
  readonly concurrency: number
  readonly leaseMs: number
  readonly pollMs: number
  /** Calls back when something of this source may have become due; answers how to stop that. */
  readonly onWake?: (wake: () => void) => () => void
  /** How long the database has been up, asked once at the start (K-03). */
  readonly databaseUptimeMs?: () => Promise<number>
  readonly logger?: Logger
  readonly metrics?: Metrics
}

export interface WorkLoop {
  /** Begins to claim. A second call is harmless; a stopped loop stays stopped. */
  start(): void
  /**
   * Claims nothing more, gives back what has not begun, and waits for what has; after `timeout` milliseconds that is
   * abandoned as by `stopNow`. Answers how many were abandoned.
   */
  stop(timeout?: number): Promise<{ readonly abandoned: number }>
  /** Aborts everything in flight and waits for nobody: other workers carry on when the leases end. */
  stopNow(): void
  readonly isRunning: boolean
  /** Items whose code is running. */
  readonly inFlight: number
}

/**
 * The one loop that every worker is made of: claim what is due into free slots, keep its leases, run it, refill slots
 * as they free up (K-01 to K-06).
 *
 * @example
 * const loop = createWorkLoop({ source, run, worker: 'w1', concurrency: 50, leaseMs: 30_000, pollMs: 1_000 })
 * loop.start()
 * await loop.stop(10_000)
 */
export function createWorkLoop<Item extends Claimed>(options: WorkLoopOptions<Item>): WorkLoop {
  const { source, run, concurrency, leaseMs, logger = silentLogger, metrics = noMetrics } = options
  const heartbeatMs = leaseMs / 3
  const leases = createLeases({ source, leaseMs, logger, metrics })
  const appetite = createAppetite(concurrency)
  const slotFreed = createSignal()
  const claimer = createClaimer({ ...options, logger, metrics, leases, heartbeatMs })
  const surveys = createSurveys()
  /** Claimed ahead of a free slot, in order. */
  let waiting: Lease<Item>[] = []
  let running = 0
  let claimed = 0
  let state: 'new' | 'running' | 'stopping' | 'stopped' = 'new'
  let heartbeat: { stop(): void } | undefined
  let claiming: Promise<void> | undefined
  let stopping: Promise<{ abandoned: number }> | undefined

  const surveyed: SurveyedLoop = {
    model: source.model,
    get held() {
      return running + waiting.length
    },
    get claimed() {
      return claimed
    },
    survey(ceilingMs) {
      const answer = surveys.ask(ceilingMs)
      claimer.lookNow()
      return answer
    },
  }

  async function claimUntilStopped(): Promise<void> {
    await claimer.begin()
    while (state === 'running') {
      const room = appetite.room(running + waiting.length)
      if (room === 0) {
        await slotFreed.wait()
        continue
      }
      const claimBegan = performance.now()
      const asked = surveys.take()
      const { taken, sated, complete, nextDueMs, dealtWith } = await claimer.claim(room, asked?.ceilingMs)
      appetite.claimTook(performance.now() - claimBegan)
      waiting.push(...taken)
      claimed += taken.length
      asked?.answer({ complete, taken: taken.length + dealtWith, nextDueMs })
      if (state !== 'running') break
      fillSlots()
      if (sated) await claimer.rest()
    }
    surveys.close()
    await giveBack()
  }

  function fillSlots(): void {
    while (running < concurrency) {
      const lease = waiting.shift()
      if (!lease) return
      // A stalled process may find its lease over before it began: somebody else runs it by now.
      if (lease.remaining() > 0) void runOne(lease)
      else leases.drop(lease)
    }
  }

  async function runOne(lease: Lease<Item>): Promise<void> {
    const began = performance.now()
    running += 1
    try {
      await run(lease.item, lease)
    } catch (error) {
      const { id, type } = lease.item
      metrics.count('runs_failed', { model: source.model, type })
      logger.error({ err: error, id, type }, 'an execution failed outside user code; its lease will end')
    } finally {
      running -= 1
      leases.drop(lease)
      appetite.itemTook(performance.now() - began)
      if (state === 'running') fillSlots()
      slotFreed.fire()
    }
  }

  async function beat(): Promise<{ skipped: number }> {
    metrics.gauge('in_flight', { model: source.model }, running)
    const answer = await leases.beat()
    if (metrics !== noMetrics) {
      metrics.gauge('oldest_due_seconds', { model: source.model }, (await source.oldestDueSeconds()) ?? 0)
    }
    return answer
  }

  function start(): void {
    if (state === 'running') return
    if (state !== 'new') throw new HoldfastError('HF_STOPPED', { what: `the worker for ${source.model}` })
    state = 'running'
    enterLoop(options.worker, surveyed)
    heartbeat = startHeartbeat({ everyMs: heartbeatMs, beat, failed: claimer.databaseFailed, logger })
    claiming = claimUntilStopped()
  }

  async function drain(timeout: number): Promise<{ abandoned: number }> {
    state = 'stopping'
    leaveLoop(options.worker, surveyed)
    claimer.stop()
    slotFreed.fire()
    const deadline = performance.now() + timeout
    // A claim that hangs in a dead database must not hold up the stop; what it may still bring is given back.
    await Promise.race([claiming, sleep(timeout, undefined, { ref: false })])
    while (running > 0 && performance.now() < deadline) await slotFreed.wait(deadline - performance.now())
    const abandoned = running
    heartbeat?.stop()
    leases.abortAll(new HoldfastError('HF_STOPPED', { what: `the worker for ${source.model}` }))
    state = 'stopped'
    return { abandoned }
  }

  async function giveBack(): Promise<void> {
    const unbegun = waiting
    waiting = []
    for (const lease of unbegun) leases.drop(lease)
    if (unbegun.length === 0) return
    try {
      await source.release(unbegun.map(({ item }) => ({ id: item.id, epoch: item.epoch })))
    } catch (error) {
      logger.warn(
        { err: error, items: unbegun.length },
        'could not give back unbegun work; it is due when its lease ends',
      )
    }
  }

  function stop(timeout = 30_000): Promise<{ abandoned: number }> {
    stopping ??= drain(timeout)
    return stopping
  }

  return {
    start,
    stop,
    stopNow() {
      void stop(0)
    },
    get isRunning() {
      return state === 'running'
    },
    get inFlight() {
      return running
    },
  }
}
