import { HoldfastError } from '../errors.js'
import type { Logger } from '../logger.js'
import type { Metrics } from '../metrics/metrics.js'
import type { Claimed, LeaseRef, WorkSource } from './source.js'

/** Leases with more than this share left wait for the next heartbeat, when more than half of them is left. */
const NEWEST = 0.9

/** What the code that runs an item knows of its lease. */
export interface Lease<Item extends Claimed = Claimed> {
  readonly item: Item
  /** Fires when the lease is lost or the worker is told to stop now. */
  readonly signal: AbortSignal
  /** Whether the signal has fired. Reading this does not create the signal. */
  readonly aborted: boolean
  /** The worker has stopped and no longer waits for this item. The lease is kept until the item's code has ended. */
  readonly interrupted: boolean
  /** Milliseconds left by the local monotonic clock, counted from before the claim was sent: never more than really remain. */
  remaining(): number
  /** The model itself has moved the end of the lease to this many milliseconds from now. */
  extended(milliseconds: number): void
}

export interface Leases<Item extends Claimed> {
  take(item: Item, claimSentAt: number): Lease<Item>
  drop(lease: Lease<Item>): void
  /** Extends all leases but the newest in one statement (`all`: the newest too); aborts the lost ones. */
  beat(all?: boolean): Promise<{ readonly skipped: number }>
  /** The worker stops: the items that it holds are interrupted. */
  abortAll(reason: Error): void
  /** The leases that this worker holds. */
  refs(): readonly LeaseRef[]
}

interface LeasesOptions<Item extends Claimed> {
  readonly source: WorkSource<Item>
  readonly leaseMs: number
  readonly logger: Logger
  readonly metrics: Metrics
}

/** The leases a worker holds, and their heartbeat. */
export function createLeases<Item extends Claimed>(options: LeasesOptions<Item>): Leases<Item> {
  const { source, leaseMs, logger, metrics } = options
  const held = new Set<HeldLease<Item>>()

  function lose(lease: HeldLease<Item>): void {
    held.delete(lease)
    const { id, type, epoch } = lease.item
    metrics.count('leases_lost', { model: source.model, type })
    logger.warn({ id, type, epoch }, 'lease lost: dropping the execution')
    lease.abort(new HoldfastError('HF_LEASE_LOST', { id, epoch: String(epoch) }))
  }

  return {
    take(item, claimSentAt) {
      const lease = new HeldLease(item, claimSentAt + leaseMs)
      held.add(lease)
      return lease
    },
    drop(lease) {
      if (lease instanceof HeldLease) held.delete(lease)
    },
    async beat(all = false) {
      const due = [...held].filter((lease) => all || lease.remaining() <= leaseMs * NEWEST)
      if (due.length === 0) return { skipped: 0 }
      const sentAt = performance.now()
      const { extended, lost } = await source.extend(
        due.map(({ item }) => ({ id: item.id, epoch: item.epoch })),
        leaseMs,
      )
      const outcomes = new Map<string, 'extended' | 'lost'>()
      for (const id of extended) outcomes.set(id, 'extended')
      for (const id of lost) outcomes.set(id, 'lost')
      let skipped = 0
      for (const lease of due) {
        if (!held.has(lease)) continue
        const outcome = outcomes.get(lease.item.id)
        if (outcome === 'extended') lease.endsAt = sentAt + leaseMs
        else if (outcome === 'lost') lose(lease)
        else skipped += 1
      }
      return { skipped }
    },
    abortAll(reason) {
      for (const lease of held) {
        lease.interrupted = true
        lease.abort(reason)
      }
    },
    refs: () => [...held].map(({ item }) => ({ id: item.id, epoch: item.epoch })),
  }
}

class HeldLease<Item extends Claimed> implements Lease<Item> {
  readonly item: Item
  endsAt: number
  interrupted = false
  #controller: AbortController | undefined
  #reason: Error | undefined

  constructor(item: Item, endsAt: number) {
    this.item = item
    this.endsAt = endsAt
  }

  remaining(): number {
    return this.endsAt - performance.now()
  }

  extended(milliseconds: number): void {
    this.endsAt = Math.max(this.endsAt, performance.now() + milliseconds)
  }

  // Created on first use: most short work never reads it, and a controller costs more than all other parts of a lease.
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#reason) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  get aborted(): boolean {
    return this.#reason !== undefined
  }

  abort(reason: Error): void {
    this.#reason ??= reason
    this.#controller?.abort(reason)
  }
}
