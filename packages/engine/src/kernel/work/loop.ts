import { setTimeout as sleep } from 'node:timers/promises'
import { isTransient } from '../database/transient.js'
import { HoldfastError } from '../errors.js'
import { type Logger, silentLogger } from '../logger.js'
import { type Metrics, noMetrics } from '../metrics/metrics.js'
import { createBackoff } from '../retry/backoff.js'
import { FIRST_ALONE, type Gate, processGate, type Turn } from './alone.js'
import { createCapacity } from './capacity.js'
import { createClaimer } from './claimer.js'
import { type Heartbeat, startHeartbeat } from './heartbeat.js'
import { createLeases, type Lease } from './leases.js'
import { createSignal } from './signal.js'
import type { Claimed, WorkSource } from './source.js'
import { createSurveys, enterLoop, leaveLoop, type SurveyedLoop } from './surveys.js'

/** A database that is down must not delay a stop for longer than this. */
const LONGEST_NOTE = 1_000

export interface WorkLoopOptions<Item extends Claimed> {
  readonly source: WorkSource<Item>
  /**
   * Runs one item to its end and records it. An error that it throws is logged, and the item is due again when its lease
   * ends: a model itself records failures of user code.
   */
  readonly run: (item: Item, lease: Lease<Item>) => Promise<void>
  /** The name of this worker, which operators see beside the items that it holds. */
  readonly worker: string
  readonly concurrency: number
  readonly leaseMs: number
  readonly pollMs: number
  /** Calls `wake` when an item of this source may have become due. Returns a function that ends this. */
  readonly onWake?: (wake: () => void) => () => void
  /** How long the database has been up; called once at the start. */
  readonly databaseUptimeMs?: () => Promise<number>
  /**
   * Prevents other work from beginning while an item runs alone. Default: the gate of this Node process. `none` for work
   * that calls no user code, or that runs for as long as its worker.
   */
  readonly gate?: Gate | 'none'
  /** For tests: the wall clock by which the loop notices that its machine was suspended. */
  readonly wallClock?: () => number
  readonly logger?: Logger
  readonly metrics?: Metrics
}

export interface WorkLoop {
  /** Begins to claim. A second call does nothing; a stopped loop stays stopped. */
  start(): void
  /**
   * Claims nothing more, releases items that have not begun, and waits for items that have. After `timeout` milliseconds it
   * abandons them as `stopNow` does. Returns how many were abandoned. They are on record as interrupted, which does not
   * count as a loss.
   */
  stop(timeout?: number): Promise<{ readonly abandoned: number }>
  /** Aborts everything in flight and does not wait: other workers continue when the leases end. */
  stopNow(): void
  readonly isRunning: boolean
  /** Items whose code is running. */
  readonly inFlight: number
}

/**
 * The loop of every worker: claims due items into free slots, extends their leases, runs them, and refills slots as they
 * become free.
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
  const capacity = createCapacity(concurrency)
  const slotFreed = createSignal()
  const claimer = createClaimer({
    ...options,
    logger,
    metrics,
    leases,
    heartbeatMs,
    heartbeatIsLate: () => heartbeat?.isLate() ?? false,
  })
  const surveys = createSurveys()
  const gate = options.gate === 'none' ? undefined : (options.gate ?? processGate)
  const { losses } = source
  /** Items that were claimed ahead of a free slot, in order. */
  let waiting: Lease<Item>[] = []
  /** Items whose last worker died and that wait for their turn to run alone, each with a function that cancels the wait. */
  const suspects = new Map<Lease<Item>, () => void>()
  const unbegun = () => waiting.length + suspects.size
  let stopOpening: (() => void) | undefined
  let running = 0
  let claimed = 0
  let state: 'new' | 'running' | 'stopping' | 'stopped' = 'new'
  let heartbeat: Heartbeat | undefined
  let claiming: Promise<void> | undefined
  let stopping: Promise<{ abandoned: number }> | undefined

  const surveyed: SurveyedLoop = {
    model: source.model,
    get held() {
      return running + unbegun()
    },
    get claimed() {
      return claimed
    },
    survey(ceilingMs) {
      const survey = surveys.ask(ceilingMs)
      claimer.pollNow()
      return survey
    },
  }

  async function claimUntilStopped(): Promise<void> {
    await claimer.begin()
    while (state === 'running') {
      const room = capacity.toClaim(running + waiting.length)
      // Other workers have capacity for it (K-26).
      if (room === 0 || gate?.isClosedForLong) {
        await slotFreed.wait()
        continue
      }
      const claimBegan = performance.now()
      const survey = surveys.take()
      // Suspects run one at a time, so no more of them are claimed; other work is, so that it does not starve.
      const enoughSuspects = suspects.size > 0
      const { taken, idle, complete, nextDueMs, handled } = await claimer.claim(room, survey?.ceilingMs, enoughSuspects)
      capacity.claimTook(performance.now() - claimBegan)
      claimed += taken.length
      for (const lease of taken) {
        if (isSuspect(lease)) void runAlone(lease)
        else waiting.push(lease)
      }
      survey?.report({ complete, taken: taken.length + handled, nextDueMs })
      if (state !== 'running') break
      fillSlots()
      if (idle) await claimer.idle()
    }
    surveys.close()
    await releaseUnbegun([...takeWaiting(), ...takeSuspects()])
  }

  function fillSlots(): void {
    while (running < concurrency && (gate === undefined || gate.isOpen)) {
      const lease = waiting.shift()
      if (!lease) return
      if (hasLease(lease)) void runOne(lease, gate?.enter())
    }
  }

  /** The lease of an item may end before the item begins, if this process stalled: another worker may run it by now. */
  function hasLease(lease: Lease<Item>): boolean {
    if (lease.remaining() > 0) return true
    leases.drop(lease)
    return false
  }

  /**
   * An item that was lost once runs beside other work: most workers die of something else, and the items that they leave
   * must not be delayed. An item that was lost again without progress may be the cause.
   */
  const isSuspect = ({ item: { lost } }: Lease<Item>) =>
    gate !== undefined &&
    losses !== undefined &&
    lost !== undefined &&
    !lost.interrupted &&
    lost.alone + lost.shared >= FIRST_ALONE

  /** Waits for a turn to run alone. If there is none soon, the item runs beside other work, and a crash is not counted against it. */
  async function runAlone(lease: Lease<Item>): Promise<void> {
    const { lost, id, type } = lease.item
    if (!gate || !lost) return
    const { turn, cancel } = gate.queue(lost)
    suspects.set(lease, cancel)
    const granted = await turn
    if (!granted) return
    // It is released with all other items that have not begun.
    if (state !== 'running') return granted.end()
    suspects.delete(lease)
    if (!hasLease(lease)) granted.end()
    else if (running >= concurrency) {
      granted.end()
      waiting.unshift(lease)
    } else {
      metrics.count('runs_alone', { model: source.model, type })
      logger.info({ id, type, alone: granted.alone, lost }, 'the workers that ran this item died: it runs alone')
      await runOne(lease, () => granted.end(), granted)
    }
    if (state === 'running') fillSlots()
    slotFreed.fire()
    // Other suspects were not claimed meanwhile.
    if (suspects.size === 0) claimer.pollNow()
  }

  async function runOne(lease: Lease<Item>, leave: (() => void) | undefined, turn?: Turn): Promise<void> {
    const began = performance.now()
    running += 1
    let ended = false
    let stopSharing: (() => void) | undefined
    try {
      if (isSuspect(lease)) stopSharing = await noteBegun(lease, turn)
      await run(lease.item, lease)
      ended = true
    } catch (error) {
      const { id, type } = lease.item
      metrics.count('runs_failed', { model: source.model, type })
      logger.error({ err: error, id, type }, 'an execution failed outside user code; its lease will end')
      // An error of the database is not the fault of the item.
      if (lease.item.lost && isTransient(error)) await note(() => losses?.begun(lease.item, 'begun'))
    } finally {
      stopSharing?.()
      if (state === 'stopped') await expire([lease])
      else if (ended && lease.item.lost) void note(() => losses?.forget(lease.item))
      running -= 1
      leases.drop(lease)
      leave?.()
      capacity.itemTook(performance.now() - began)
      if (state === 'running') fillSlots()
      slotFreed.fire()
    }
  }

  /**
   * Records whether anything runs beside an item whose last worker died. Its turn ends after a while, in this order: first
   * the record says that it is no longer alone, then other work begins. Returns a function that prevents this.
   */
  async function noteBegun(lease: Lease<Item>, turn: Turn | undefined): Promise<() => void> {
    let stopped = false
    const beginBeside = async (): Promise<void> => {
      const backoff = createBackoff({ base: 50, cap: 5_000 })
      const noted = () => note(() => losses?.begun(lease.item, 'begun'))
      while (!stopped && !lease.aborted && !(await noted())) await sleep(backoff.next())
      if (!stopped) turn?.open()
    }
    let timer: NodeJS.Timeout | undefined
    if (!turn?.alone) {
      turn?.open()
      await note(() => losses?.begun(lease.item, 'begun'))
    } else if (await note(() => losses?.begun(lease.item, 'alone'))) {
      timer = setTimeout(() => void beginBeside(), turn.milliseconds)
    } else await beginBeside()
    return () => {
      stopped = true
      clearTimeout(timer)
    }
  }

  async function note(write: () => Promise<void> | undefined): Promise<boolean> {
    try {
      await write()
      return true
    } catch (error) {
      logger.debug({ err: error, model: source.model }, 'could not record how a lost item runs')
      return false
    }
  }

  async function beat(): Promise<{ skipped: number }> {
    metrics.gauge('in_flight', { model: source.model }, running)
    if (gate?.isClosedForLong) await releaseUnbegun(takeWaiting())
    const extended = await leases.beat()
    if (metrics !== noMetrics) {
      metrics.gauge('oldest_due_seconds', { model: source.model }, (await source.oldestDueSeconds()) ?? 0)
    }
    return extended
  }

  function start(): void {
    if (state === 'running') return
    if (state !== 'new') throw new HoldfastError('HF_STOPPED', { what: `the worker for ${source.model}` })
    state = 'running'
    enterLoop(options.worker, surveyed)
    stopOpening = gate?.onOpen(() => {
      if (state === 'running') fillSlots()
      slotFreed.fire()
    })
    heartbeat = startHeartbeat({ everyMs: heartbeatMs, beat, failed: claimer.recoverFirst, logger })
    claiming = claimUntilStopped()
  }

  async function drain(timeout: number): Promise<{ abandoned: number }> {
    state = 'stopping'
    leaveLoop(options.worker, surveyed)
    claimer.stop()
    slotFreed.fire()
    const deadline = performance.now() + timeout
    // A claim that hangs because the database is down must not delay the stop; items that it still returns are released.
    await Promise.race([claiming, sleep(timeout, undefined, { ref: false })])
    while (running > 0 && performance.now() < deadline) await slotFreed.wait(deadline - performance.now())
    const abandoned = running
    heartbeat?.stop()
    stopOpening?.()
    const interrupted = noteInterrupted()
    state = 'stopped'
    leases.abortAll(new HoldfastError('HF_STOPPED', { what: `the worker for ${source.model}` }))
    await Promise.race([interrupted, sleep(LONGEST_NOTE, undefined, { ref: false })])
    return { abandoned }
  }

  /**
   * Records items that still run as interrupted before another worker can claim them. Their leases are kept: code that
   * ignores its abort signal continues in this process, and no other worker may run it at the same time. When the code ends
   * after all, the lease ends with it (`expire`), and another worker continues at once.
   */
  async function noteInterrupted(): Promise<void> {
    const held = leases.refs()
    if (held.length === 0 || !losses) return
    try {
      await losses.interrupted(held)
    } catch (error) {
      logger.warn({ err: error, items: held.length }, 'could not record that a stop interrupted calls')
    }
  }

  /** Does nothing to an item that has been recorded: the fence sees that. */
  async function expire(ended: readonly Lease<Item>[]): Promise<void> {
    try {
      await losses?.expire(ended.map(({ item }) => ({ id: item.id, epoch: item.epoch })))
    } catch (error) {
      logger.debug({ err: error, items: ended.length }, 'could not end leases; the items are due when the leases end')
    }
  }

  function takeWaiting(): Lease<Item>[] {
    const taken = waiting
    waiting = []
    return taken
  }

  function takeSuspects(): Lease<Item>[] {
    const taken = [...suspects.keys()]
    for (const callOff of suspects.values()) callOff()
    suspects.clear()
    return taken
  }

  /** Releases items that never began. An item that was lost before stays lost: the outcome of its last call is still unknown. */
  async function releaseUnbegun(all: readonly Lease<Item>[]): Promise<void> {
    for (const lease of all) leases.drop(lease)
    if (all.length === 0) return
    const refs = (some: readonly Lease<Item>[]) => some.map(({ item }) => ({ id: item.id, epoch: item.epoch }))
    const lost = all.filter(({ item }) => losses !== undefined && item.lost !== undefined)
    const fresh = all.filter((lease) => !lost.includes(lease))
    try {
      if (fresh.length > 0) await source.release(refs(fresh))
      if (lost.length > 0) {
        await losses?.interrupted(refs(lost))
        await losses?.expire(refs(lost))
      }
    } catch (error) {
      logger.warn(
        { err: error, items: all.length },
        'could not release work that has not begun; it is due when its lease ends',
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
