import { createBatcher } from '../kernel/batching/batcher.js'
import type { Database } from '../kernel/database/database.js'
import { HoldfastError } from '../kernel/errors.js'
import type { Logger } from '../kernel/logger.js'
import type { Metrics } from '../kernel/metrics/metrics.js'
import type { Limiter } from '../kernel/model/limiter.js'
import { type Asker, type Dealt, flushGroups, type Group } from './groups.js'
import { type Slots, waitOf } from './runs.js'

interface LimiterOptions {
  /** Give a caller an error after so long without a database; without it, it waits for as long as it takes. */
  readonly giveUpAfter?: number
  readonly logger?: Logger
  readonly metrics?: Metrics
}

/** Bounds what is made ready in one turn of the event loop. */
const LARGEST_GROUP = 1_000

/**
 * The limiter of one process. Reservations go through the kernel's group commit: what is asked for while a statement is
 * under way goes out with the next, whatever its key, and what is asked of one key is one entry of it.
 *
 * A flush whose answer was lost is repeated and reserves again: the slots of the first time are wasted, as R-02 allows. To
 * recognise them, the bucket would have to remember the last reservation of every worker.
 *
 * @example
 * const limiter = createLimiter(db)
 * const slot = await limiter.reserve('risk_api', 5_000)
 */
export function createLimiter(db: Database, options: LimiterOptions = {}): Limiter {
  /** The last group of a key that has not been answered. */
  const last = new Map<string, Group>()
  const batcher = createBatcher<Group, Dealt>({
    name: 'limits.reserve',
    key: ({ key }) => key,
    flush: (groups) => flushGroups(db, groups),
    ...options,
  })

  /** The group that the next who asks for this key joins. */
  function groupOf(key: string): Group {
    const there = last.get(key)
    if (there && !there.isSealed && there.askers.length < LARGEST_GROUP) return there
    const group: Group = { key, askers: [], isSealed: false, isHeld: false }
    last.set(key, group)
    void batcher
      .write(group)
      .then(answerAll, (error) => {
        for (const asker of group.askers) asker.reject(error)
      })
      .finally(() => {
        if (last.get(key) === group) last.delete(key)
      })
    return group
  }

  async function ask(key: string, count: number, maxWaitMs: number, signal?: AbortSignal): Promise<Slots> {
    signal?.throwIfAborted()
    const { asker, answer } = newAsker(count, maxWaitMs)
    const leave = () => {
      asker.isGone = true
      asker.reject(signal?.reason)
    }
    signal?.addEventListener('abort', leave)
    try {
      groupOf(key).askers.push(asker)
      const slots = await answer
      if (slots === 'unknown') throw new HoldfastError('HF_UNKNOWN_RATE_LIMIT', { key })
      return slots
    } finally {
      signal?.removeEventListener('abort', leave)
    }
  }

  return {
    async reserve(key, maxWaitMs, signal) {
      const slots = await ask(key, 1, maxWaitMs, signal)
      return slots.granted === 1
        ? { granted: true, waitMs: waitOf(slots), atMs: slots.atMs + waitOf(slots) }
        : { granted: false, retryAfterMs: slots.retryAfterMs }
    },
    async reserveMany(key, count, maxWaitMs = 0) {
      const slots = await ask(key, count, maxWaitMs)
      const waitsMs = Array.from({ length: slots.granted }, (_, nth) => waitOf(slots, nth))
      const atsMs = waitsMs.map((wait) => slots.atMs + wait)
      return { granted: slots.granted, waitsMs, atsMs, retryAfterMs: slots.granted === count ? 0 : slots.retryAfterMs }
    },
    close: (timeout) => batcher.close(timeout),
  }
}

function newAsker(count: number, maxWaitMs: number): { asker: Asker; answer: Promise<Slots | 'unknown'> } {
  const asker: Asker = { count, maxWaitMs, since: performance.now(), isGone: false, resolve() {}, reject() {} }
  const answer = new Promise<Slots | 'unknown'>((resolve, reject) => {
    Object.assign(asker, { resolve, reject })
  })
  return { asker, answer }
}

function answerAll(dealt: Dealt): void {
  for (const { asker, slots } of dealt) asker.resolve(slots)
}
