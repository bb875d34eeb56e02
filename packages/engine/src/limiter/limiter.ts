import { createBatcher } from '../kernel/batching/batcher.js'
import type { Database } from '../kernel/database/database.js'
import { HoldfastError } from '../kernel/errors.js'
import type { Logger } from '../kernel/logger.js'
import type { Metrics } from '../kernel/metrics/metrics.js'
import type { Limiter } from '../kernel/model/limiter.js'
import { type Distributed, flushGroups, type Group, type PendingRequest } from './groups.js'
import { type Slots, waitOf } from './merged-requests.js'

interface LimiterOptions {
  /** Reject a request after this many milliseconds without a database. Default: wait for as long as it takes. */
  readonly giveUpAfter?: number
  readonly logger?: Logger
  readonly metrics?: Metrics
}

/** Bounds the work of one turn of the event loop. */
const LARGEST_GROUP = 1_000

/**
 * The limiter of one process. Reservations go through the kernel's group commit: requests that arrive while a statement is
 * in flight go out with the next one, and all requests for one key are one entry of it.
 *
 * A flush whose result was lost is repeated and reserves again: the slots of the first time are wasted. To recognise them,
 * the bucket would have to store the last reservation of every worker.
 *
 * @example
 * const limiter = createLimiter(db)
 * const slot = await limiter.reserve('risk_api', 5_000)
 */
export function createLimiter(db: Database, options: LimiterOptions = {}): Limiter {
  /** The last group of each key that has no result yet. */
  const last = new Map<string, Group>()
  const batcher = createBatcher<Group, Distributed>({
    name: 'limits.reserve',
    key: ({ key }) => key,
    flush: (groups) => flushGroups(db, groups),
    ...options,
  })

  /** The group that the next request for this key joins. */
  function groupOf(key: string): Group {
    const there = last.get(key)
    if (there && !there.isSent && there.requests.length < LARGEST_GROUP) return there
    const group: Group = { key, requests: [], isSent: false, isLocked: false }
    last.set(key, group)
    void batcher
      .write(group)
      .then(resolveAll, (error) => {
        for (const pending of group.requests) pending.reject(error)
      })
      .finally(() => {
        if (last.get(key) === group) last.delete(key)
      })
    return group
  }

  async function request(key: string, count: number, maxWaitMs: number, signal?: AbortSignal): Promise<Slots> {
    signal?.throwIfAborted()
    const { pending, result } = newRequest(count, maxWaitMs)
    const leave = () => {
      pending.isAbandoned = true
      pending.reject(signal?.reason)
    }
    signal?.addEventListener('abort', leave)
    try {
      groupOf(key).requests.push(pending)
      const slots = await result
      if (slots === 'unknown') throw new HoldfastError('HF_UNKNOWN_RATE_LIMIT', { key })
      return slots
    } finally {
      signal?.removeEventListener('abort', leave)
    }
  }

  return {
    async reserve(key, maxWaitMs, signal) {
      const slots = await request(key, 1, maxWaitMs, signal)
      return slots.granted === 1
        ? { granted: true, waitMs: waitOf(slots), atMs: slots.atMs + waitOf(slots) }
        : { granted: false, retryAfterMs: slots.retryAfterMs }
    },
    async reserveMany(key, count, maxWaitMs = 0) {
      const slots = await request(key, count, maxWaitMs)
      const waitsMs = Array.from({ length: slots.granted }, (_, nth) => waitOf(slots, nth))
      const atsMs = waitsMs.map((wait) => slots.atMs + wait)
      return { granted: slots.granted, waitsMs, atsMs, retryAfterMs: slots.granted === count ? 0 : slots.retryAfterMs }
    },
    close: (timeout) => batcher.close(timeout),
  }
}

function newRequest(count: number, maxWaitMs: number): { pending: PendingRequest; result: Promise<Slots | 'unknown'> } {
  const pending: PendingRequest = {
    count,
    maxWaitMs,
    since: performance.now(),
    isAbandoned: false,
    resolve() {},
    reject() {},
  }
  const result = new Promise<Slots | 'unknown'>((resolve, reject) => {
    Object.assign(pending, { resolve, reject })
  })
  return { pending, result }
}

function resolveAll(distributed: Distributed): void {
  for (const { request, slots } of distributed) request.resolve(slots)
}
