import { isTransient } from '../database/transient.js'
import type { Logger } from '../logger.js'
import type { Metrics } from '../metrics/metrics.js'
import { createBackoff } from '../retry/backoff.js'
import type { Lease, Leases } from './leases.js'
import { createPollTiming } from './poll-timing.js'
import { createSignal } from './signal.js'
import type { Claimed, WorkSource } from './source.js'
import { createWatermarks } from './watermarks.js'

interface ClaimerOptions<Item extends Claimed> {
  readonly source: WorkSource<Item>
  readonly worker: string
  readonly leaseMs: number
  readonly pollMs: number
  readonly heartbeatMs: number
  readonly leases: Leases<Item>
  /** Whether a whole lease has passed without a heartbeat of this worker. */
  readonly heartbeatIsLate: () => boolean
  readonly onWake?: (wake: () => void) => () => void
  readonly databaseUptimeMs?: () => Promise<number>
  readonly logger: Logger
  readonly metrics: Metrics
  /** The wall clock of this machine, in milliseconds. Used only to notice that the machine was suspended. */
  readonly wallClock?: () => number
}

interface Claim<Item extends Claimed> {
  readonly taken: readonly Lease<Item>[]
  /** Nothing more is due, or the database is unreachable: wait before the next claim. */
  readonly idle: boolean
  /** Whether the claim read everything that is due. */
  readonly complete: boolean
  readonly nextDueMs: number | null
  readonly handled: number
}

/**
 * When and how to claim: the watermarks, the idle time between claims, and what changes after an outage of the database or
 * a suspension of this machine, or after this process stalled for longer than a lease. After each of these, a worker first extends
 * its own leases, and does not claim expired ones for one heartbeat, so that every other live worker can extend its leases too
 * before its work is claimed.
 */
export function createClaimer<Item extends Claimed>(options: ClaimerOptions<Item>) {
  const { source, worker, leaseMs, pollMs, heartbeatMs, leases, logger, metrics } = options
  const labels = { model: source.model }
  const watermarks = createWatermarks()
  const pollTiming = createPollTiming(pollMs)
  const backoff = createBackoff({ base: 50, cap: 5_000 })
  const wakeUp = createSignal()
  let idleMs = pollMs
  let stopped = false
  let outage = false
  const wasSuspended = watchForSuspension(heartbeatMs / 2, options.wallClock ?? Date.now)
  let graceUntil = Number.NEGATIVE_INFINITY
  let unsubscribe: (() => void) | undefined

  /** Finds out whether the database has just started: then other workers may not have had the time to extend their leases. */
  async function begin(): Promise<void> {
    unsubscribe = options.onWake?.(() => {
      metrics.count('notifications_received', labels)
      const delay = pollTiming.woken()
      if (delay === 0) wakeUp.fire()
      else setTimeout(() => wakeUp.fire(), delay)
    })
    const uptime = await options.databaseUptimeMs?.().catch(recoverFirst)
    if (uptime !== undefined && uptime < heartbeatMs) graceUntil = performance.now() + heartbeatMs - uptime
  }

  /**
   * With a ceiling the claim reads everything that is due, and returns the next due time up to the ceiling. `spareLost`
   * leaves expired leases to other workers and to a later claim.
   */
  async function claim(limit: number, ceilingMs?: number, spareLost = false): Promise<Claim<Item>> {
    const types = source.types()
    if (types.length === 0) return { ...nothing(null, 0), complete: true }
    try {
      if (wasSuspended() || options.heartbeatIsLate()) outage = true
      if (outage) await recover()
      if (ceilingMs !== undefined) watermarks.forget()
      const sentAt = performance.now()
      const spareLeased = spareLost || graceUntil > sentAt
      const { lanes, full } = watermarks.lanes(types, sentAt)
      const result = await source.claim({ worker, limit, leaseMs, lanes, spareLeased, ceilingMs: ceilingMs ?? pollMs })
      const endedAt = performance.now()
      watermarks.advance(result, { full, began: sentAt, ended: endedAt })
      // The rows that were skipped lie below the watermarks.
      if (spareLeased) watermarks.forget()
      backoff.reset()
      pollTiming.claimed(result.items.length)
      metrics.count('claims_tried', labels)
      metrics.count('claims_won', labels, result.items.length)
      metrics.observe('claim_milliseconds', labels, endedAt - sentAt)
      const taken = result.items.map((item) => leases.take(item, sentAt))
      const complete = full && !spareLeased
      const { nextDueMs, handled = 0 } = result
      if (taken.length < limit) return { ...nothing(nextDueMs, handled), taken, complete }
      return { taken, idle: false, complete, nextDueMs, handled }
    } catch (error) {
      // Only a transient error of the database counts as an outage.
      if (isTransient(error)) recoverFirst()
      logger.warn({ err: error, model: source.model }, 'claiming failed; trying again')
      metrics.count('database_retries', labels)
      idleMs = backoff.next()
      return { taken: [], idle: true, complete: false, nextDueMs: null, handled: 0 }
    }
  }

  function nothing(nextDueMs: number | null, handled: number): Claim<Item> {
    idleMs = pollTiming.idleMs(nextDueMs)
    return { taken: [], idle: true, complete: false, nextDueMs, handled }
  }

  async function recover(): Promise<void> {
    await leases.beat(true)
    outage = false
    graceUntil = performance.now() + heartbeatMs
    logger.info(
      { model: source.model },
      'the database, or this machine, is back: own leases are extended; expired leases of others are not claimed for one heartbeat',
    )
  }

  function recoverFirst(): undefined {
    outage = true
  }

  return {
    begin,
    claim,
    /** Leases may have ended: before the next claim this worker extends its own. */
    recoverFirst,
    /** Ends the idle wait. */
    pollNow: () => wakeUp.fire(),
    /** Waits until the next due time, the next poll or a wake-up. */
    idle: () => (stopped ? Promise.resolve() : wakeUp.wait(idleMs)),
    stop() {
      stopped = true
      unsubscribe?.()
      wakeUp.fire()
    },
  }
}

/**
 * Returns whether the wall clock has advanced further than the monotonic clock since the last call. The monotonic clock
 * stops while a machine is suspended. The leases of all workers of this machine may have ended meanwhile, although all of
 * them live.
 */
function watchForSuspension(toleranceMs: number, wallClock: () => number): () => boolean {
  let lead = wallClock() - performance.now()
  return () => {
    const before = lead
    lead = wallClock() - performance.now()
    return lead - before > toleranceMs
  }
}
