import { setTimeout as sleep } from 'node:timers/promises'
import { isTransient } from '../database/transient.js'
import { HoldfastError } from '../errors.js'
import { type Logger, silentLogger } from '../logger.js'
import { type Metrics, noMetrics } from '../metrics/metrics.js'
import { createBackoff } from '../retry/backoff.js'
import { FIRST_ALONE, type Gate, processGate, type Turn } from './alone.js'
import { createAppetite } from './appetite.js'
import { createClaimer } from './claimer.js'
import { startHeartbeat } from './heartbeat.js'
import { createLeases, type Lease } from './leases.js'
import { createSignal } from './signal.js'
import type { Claimed, WorkSource } from './source.js'
import { createSurveys, enterLoop, leaveLoop, type SurveyedLoop } from './surveys.js'

/** A dead database must not hold up a stop for longer. */
const LONGEST_NOTE = 1_000

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
  /**
   * What keeps other work from beginning while an item runs alone (K-26): the gate of this process unless given. `none` for
   * work that calls no code of the user, or runs for as long as its worker.
   */
  readonly gate?: Gate | 'none'
  /** For tests: the wall clock by which the loop notices that its machine was suspended. */
  readonly wallClock?: () => number
  readonly logger?: Logger
  readonly metrics?: Metrics
}

export interface WorkLoop {
  /** Begins to claim. A second call is harmless; a stopped loop stays stopped. */
  start(): void
  /**
   * Claims nothing more, gives back what has not begun, and waits for what has; after `timeout` milliseconds that is
   * abandoned as by `stopNow`. Answers how many were abandoned. They are on record as interrupted: nobody is to blame.
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
  const gate = options.gate === 'none' ? undefined : (options.gate ?? processGate)
  const { losses } = source
  /** Claimed ahead of a free slot, in order. */
  let waiting: Lease<Item>[] = []
  /** Items whose last worker died, which wait for their turn to run alone, and how to call that off. */
  const onTrial = new Map<Lease<Item>, () => void>()
  const unbegun = () => waiting.length + onTrial.size
  let stopOpening: (() => void) | undefined
  let running = 0
  let claimed = 0
  let state: 'new' | 'running' | 'stopping' | 'stopped' = 'new'
  let heartbeat: { stop(): void } | undefined
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
      const answer = surveys.ask(ceilingMs)
      claimer.lookNow()
      return answer
    },
  }

  async function claimUntilStopped(): Promise<void> {
    await claimer.begin()
    while (state === 'running') {
      const room = appetite.room(running + waiting.length)
      // Other processes have the time for it (K-26).
      if (room === 0 || gate?.isClosedForLong) {
        await slotFreed.wait()
        continue
      }
      const claimBegan = performance.now()
      const asked = surveys.take()
      // No more of those that run one at a time, and others as ever: they must not starve.
      const enoughOnTrial = onTrial.size > 0
      const { taken, sated, complete, nextDueMs, dealtWith } = await claimer.claim(
        room,
        asked?.ceilingMs,
        enoughOnTrial,
      )
      appetite.claimTook(performance.now() - claimBegan)
      claimed += taken.length
      for (const lease of taken) {
        if (isSuspect(lease)) void tryAlone(lease)
        else waiting.push(lease)
      }
      asked?.answer({ complete, taken: taken.length + dealtWith, nextDueMs })
      if (state !== 'running') break
      fillSlots()
      if (sated) await claimer.rest()
    }
    surveys.close()
    await giveBack([...takeWaiting(), ...takeOnTrial()])
  }

  function fillSlots(): void {
    while (running < concurrency && (gate === undefined || gate.isOpen)) {
      const lease = waiting.shift()
      if (!lease) return
      if (hasLease(lease)) void runOne(lease, gate?.enter())
    }
  }

  /** A stalled process may find its lease over before it began: another worker runs it by now. */
  function hasLease(lease: Lease<Item>): boolean {
    if (lease.remaining() > 0) return true
    leases.drop(lease)
    return false
  }

  /**
   * Lost once, it goes on beside other work: most workers die of something else, and what they leave behind must get on as
   * fast as ever. Lost again, without progress, it may be the reason.
   */
  const isSuspect = ({ item: { lost } }: Lease<Item>) =>
    gate !== undefined &&
    losses !== undefined &&
    lost !== undefined &&
    !lost.interrupted &&
    lost.alone + lost.shared >= FIRST_ALONE

  /** Waits for its turn to run alone; where that is not to be had soon it runs beside other work, and is not to blame. */
  async function tryAlone(lease: Lease<Item>): Promise<void> {
    const { lost, id, type } = lease.item
    if (!gate || !lost) return
    const { turn, callOff } = gate.queue(lost)
    onTrial.set(lease, callOff)
    const granted = await turn
    if (!granted) return
    // Given back with all others that have not begun.
    if (state !== 'running') return granted.end()
    onTrial.delete(lease)
    if (!hasLease(lease)) granted.end()
    else if (running >= concurrency) {
      granted.end()
      waiting.unshift(lease)
    } else {
      metrics.count('runs_alone', { model: source.model, type })
      logger.info({ id, type, alone: granted.alone, lost }, 'its workers died: nothing else begins beside it')
      await runOne(lease, () => granted.end(), granted)
    }
    if (state === 'running') fillSlots()
    slotFreed.fire()
    // Others like it were left alone meanwhile.
    if (onTrial.size === 0) claimer.lookNow()
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
      // Trouble of the database says nothing about the item.
      if (lease.item.lost && isTransient(error)) await note(() => losses?.begun(lease.item, 'begun'))
    } finally {
      stopSharing?.()
      if (state === 'stopped') await expire([lease])
      else if (ended && lease.item.lost) void note(() => losses?.forget(lease.item))
      running -= 1
      leases.drop(lease)
      leave?.()
      appetite.itemTook(performance.now() - began)
      if (state === 'running') fillSlots()
      slotFreed.fire()
    }
  }

  /**
   * Puts on record whether anything runs beside an item whose last worker died. Its turn ends after a while, in this order:
   * first it is on record that it is not alone any more, then other work begins. Answers how to stop that.
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
      logger.debug({ err: error, model: source.model }, 'could not write down how a lost item runs')
      return false
    }
  }

  async function beat(): Promise<{ skipped: number }> {
    metrics.gauge('in_flight', { model: source.model }, running)
    if (gate?.isClosedForLong) await giveBack(takeWaiting())
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
    stopOpening = gate?.onOpen(() => {
      if (state === 'running') fillSlots()
      slotFreed.fire()
    })
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
    stopOpening?.()
    const interrupted = noteInterrupted()
    state = 'stopped'
    leases.abortAll(new HoldfastError('HF_STOPPED', { what: `the worker for ${source.model}` }))
    await Promise.race([interrupted, sleep(LONGEST_NOTE, undefined, { ref: false })])
    return { abandoned }
  }

  /**
   * What still runs is on record as interrupted before anybody can claim it. Its lease is kept: code that does not heed its
   * signal goes on in this process, and nobody must run it a second time beside that. Where the code ends after all, the
   * lease ends with it (`expire`), and another worker goes on at once.
   */
  async function noteInterrupted(): Promise<void> {
    const held = leases.refs()
    if (held.length === 0 || !losses) return
    try {
      await losses.interrupted(held)
    } catch (error) {
      logger.warn({ err: error, items: held.length }, 'could not write down that calls were interrupted by a stop')
    }
  }

  /** The item has left no record, or this does nothing: the fence tells. */
  async function expire(ended: readonly Lease<Item>[]): Promise<void> {
    try {
      await losses?.expire(ended.map(({ item }) => ({ id: item.id, epoch: item.epoch })))
    } catch (error) {
      logger.debug({ err: error, items: ended.length }, 'could not end leases; they are due when those end')
    }
  }

  function takeWaiting(): Lease<Item>[] {
    const taken = waiting
    waiting = []
    return taken
  }

  function takeOnTrial(): Lease<Item>[] {
    const taken = [...onTrial.keys()]
    for (const callOff of onTrial.values()) callOff()
    onTrial.clear()
    return taken
  }

  /** What was never begun. An item that was lost before stays so: what its last call did is unknown still. */
  async function giveBack(all: readonly Lease<Item>[]): Promise<void> {
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
      logger.warn({ err: error, items: all.length }, 'could not give back unbegun work; it is due when its lease ends')
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
