import { isTransient } from '../database/transient.js'
import type { Logger } from '../logger.js'
import type { Metrics } from '../metrics/metrics.js'
import { createBackoff } from '../retry/backoff.js'
import type { Lease, Leases } from './leases.js'
import { createSignal } from './signal.js'
import type { Claimed, WorkSource } from './source.js'
import { createWakefulness } from './wakefulness.js'
import { createWatermarks } from './watermarks.js'

interface ClaimerOptions<Item extends Claimed> {
  readonly source: WorkSource<Item>
  readonly worker: string
  readonly leaseMs: number
  readonly pollMs: number
  readonly heartbeatMs: number
  readonly leases: Leases<Item>
  readonly onWake?: (wake: () => void) => () => void
  readonly databaseUptimeMs?: () => Promise<number>
  readonly logger: Logger
  readonly metrics: Metrics
  /** The wall clock of this machine, in milliseconds. It decides nothing: it tells whether the machine stood still. */
  readonly wallClock?: () => number
}

interface Claim<Item extends Claimed> {
  readonly taken: readonly Lease<Item>[]
  /** Nothing more is due, or the database is in trouble: rest before the next claim. */
  readonly sated: boolean
  /** Whether everything that is due was looked at. */
  readonly complete: boolean
  readonly nextDueMs: number | null
  readonly dealtWith: number
}

/**
 * When and how to claim: the watermarks, the rests between claims, and what an outage of the database, or a machine that
 * was suspended, changes. After one, a worker first extends what it holds, and leaves expired leases alone for one heartbeat, so that every other
 * live worker can do the same before its work is taken (K-03).
 */
export function createClaimer<Item extends Claimed>(options: ClaimerOptions<Item>) {
  const { source, worker, leaseMs, pollMs, heartbeatMs, leases, logger, metrics } = options
  const labels = { model: source.model }
  const watermarks = createWatermarks()
  const wakefulness = createWakefulness(pollMs)
  const backoff = createBackoff({ base: 50, cap: 5_000 })
  const look = createSignal()
  let restMs = pollMs
  let stopped = false
  let outage = false
  const stoodStill = watchForStandstill(heartbeatMs / 2, options.wallClock ?? Date.now)
  let graceUntil = Number.NEGATIVE_INFINITY
  let unsubscribe: (() => void) | undefined

  /** Learns whether the database has just come up: then others may not have had the time to extend. */
  async function begin(): Promise<void> {
    unsubscribe = options.onWake?.(() => {
      metrics.count('notifications_received', labels)
      const hesitation = wakefulness.woken()
      if (hesitation === 0) look.fire()
      else setTimeout(() => look.fire(), hesitation)
    })
    const uptime = await options.databaseUptimeMs?.().catch(databaseFailed)
    if (uptime !== undefined && uptime < heartbeatMs) graceUntil = performance.now() + heartbeatMs - uptime
  }

  /**
   * A ceiling asks for a look at everything, and for the next due time up to there. `spareLost` leaves expired leases to
   * others and to a later claim.
   */
  async function claim(limit: number, ceilingMs?: number, spareLost = false): Promise<Claim<Item>> {
    const types = source.types()
    if (types.length === 0) return { ...nothing(null, 0), complete: true }
    try {
      if (stoodStill()) outage = true
      if (outage) await recover()
      if (ceilingMs !== undefined) watermarks.forget()
      const sentAt = performance.now()
      const spareLeased = spareLost || graceUntil > sentAt
      const { lanes, full } = watermarks.lanes(types, sentAt)
      const answer = await source.claim({ worker, limit, leaseMs, lanes, spareLeased, ceilingMs: ceilingMs ?? pollMs })
      const endedAt = performance.now()
      watermarks.learned(answer, { full, began: sentAt, ended: endedAt })
      // What was left alone lies below the marks.
      if (spareLeased) watermarks.forget()
      backoff.reset()
      wakefulness.claimed(answer.items.length)
      metrics.count('claims_tried', labels)
      metrics.count('claims_won', labels, answer.items.length)
      metrics.observe('claim_milliseconds', labels, endedAt - sentAt)
      const taken = answer.items.map((item) => leases.take(item, sentAt))
      const complete = full && !spareLeased
      const { nextDueMs, dealtWith = 0 } = answer
      if (taken.length < limit) return { ...nothing(nextDueMs, dealtWith), taken, complete }
      return { taken, sated: false, complete, nextDueMs, dealtWith }
    } catch (error) {
      // An error that is not the database's trouble is no outage.
      if (isTransient(error)) databaseFailed()
      logger.warn({ err: error, model: source.model }, 'claiming failed; trying again')
      metrics.count('database_retries', labels)
      restMs = backoff.next()
      return { taken: [], sated: true, complete: false, nextDueMs: null, dealtWith: 0 }
    }
  }

  function nothing(nextDueMs: number | null, dealtWith: number): Claim<Item> {
    restMs = wakefulness.rest(nextDueMs)
    return { taken: [], sated: true, complete: false, nextDueMs, dealtWith }
  }

  async function recover(): Promise<void> {
    await leases.beat(true)
    outage = false
    graceUntil = performance.now() + heartbeatMs
    logger.info(
      { model: source.model },
      'the database, or this machine, is back: leases are extended, expired ones of others wait a heartbeat',
    )
  }

  function databaseFailed(): undefined {
    outage = true
  }

  return {
    begin,
    claim,
    databaseFailed,
    /** Ends the rest. */
    lookNow: () => look.fire(),
    /** Until the next due time, the next poll or a wake-up. */
    rest: () => (stopped ? Promise.resolve() : look.wait(restMs)),
    stop() {
      stopped = true
      unsubscribe?.()
      look.fire()
    },
  }
}

/**
 * Whether the wall clock has got ahead of the monotonic one since it was last asked, which does not advance while a machine
 * is suspended. The leases of all workers of this machine may have ended meanwhile, and all of them live.
 */
function watchForStandstill(toleranceMs: number, wallClock: () => number): () => boolean {
  let lead = wallClock() - performance.now()
  return () => {
    const before = lead
    lead = wallClock() - performance.now()
    return lead - before > toleranceMs
  }
}
