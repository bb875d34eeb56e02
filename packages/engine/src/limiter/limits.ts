import { type By, checkBy } from '../kernel/audit/audit.js'
import type { Database } from '../kernel/database/database.js'
import { GIVE_UP_AFTER } from '../kernel/database/retrying.js'
import { type Duration, formatDuration } from '../kernel/duration/duration.js'
import { HoldfastError } from '../kernel/errors.js'
import type { Limiter } from '../kernel/model/limiter.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { checkOptions, durationOption } from '../kernel/validation/options.js'
import { checkLimit, checkLimitKey, type RateLimitOptions } from './check-limit.js'
import { defineLimit, removeLimit, setLimit } from './queries/change-limit.js'
import { findLimits, type RateLimit } from './queries/find-limits.js'
import { createWaitingRoom } from './waiting-room.js'

export interface AcquireOptions {
  /** How far ahead the slot may lie; at most a day. Default: 30 s. */
  readonly maxWait?: Duration
  /** Ends the wait. A slot that was reserved already is wasted. */
  readonly signal?: AbortSignal
}

/** Rate limits across all workers and machines: how often something may be done, by a key. */
export interface RateLimits {
  /**
   * Creates a limit if there is none of that key. Services call it when they start. An existing limit stays as it is, because
   * an operator may have changed it. Returns whether the limit was created; if so, it is audited.
   */
  define(key: string, limit: RateLimitOptions): Promise<boolean>
  /**
   * Sets a limit, for operators. It replaces an existing limit and applies from the next reservation on, everywhere. Returns
   * whether it changed anything; if so, it is audited.
   */
  set(key: string, limit: RateLimitOptions, by: By): Promise<boolean>
  /** Removes a limit: from then on its key is unknown. Returns whether there was one. */
  remove(key: string, by: By): Promise<boolean>
  get(key: string): Promise<RateLimit>
  list(): Promise<RateLimit[]>
  /** Takes the next slot and resolves at its time. Rejects with HF_RATE_LIMITED, without taking it, if that is beyond `maxWait`. */
  acquire(key: string, options?: AcquireOptions): Promise<void>
  /** Takes a slot if one is free now. */
  tryAcquire(key: string): Promise<boolean>
}

/**
 * The rate limits of an installation, for applications and operators.
 *
 * @example
 * await hf.limits.define('risk_api', { ticketsPerSecond: 10 })
 * await hf.limits.acquire('risk_api', { maxWait: '5s' })
 */
export function createRateLimits(db: Database, limiter: Limiter): RateLimits & { close: () => Promise<void> } {
  const room = createWaitingRoom()
  return {
    async define(key, limit) {
      return defineLimit(db, checkLimitKey('limits.define', key), checkLimit('limits.define', limit))
    },
    async set(key, limit, by) {
      const actor = checkBy('limits.set', by)
      return setLimit(db, checkLimitKey('limits.set', key), checkLimit('limits.set', limit), actor)
    },
    async remove(key, by) {
      const actor = checkBy('limits.remove', by)
      return removeLimit(db, checkLimitKey('limits.remove', key), actor)
    },
    async get(key) {
      const [limit] = await findLimits(db, checkLimitKey('limits.get', key))
      if (!limit) throw new HoldfastError('HF_UNKNOWN_RATE_LIMIT', { key })
      return limit
    },
    list: () => findLimits(db),
    async acquire(key, options = {}) {
      const where = 'limits.acquire'
      const { maxWait, signal } = checkOptions(where, options, ['maxWait', 'signal'])
      const maxWaitMs = durationOption(where, 'maxWait', maxWait, { max: '1d', default: '30s' })
      const slot = await limiter.reserve(checkLimitKey(where, key), maxWaitMs, checkSignal(where, signal))
      if (!slot.granted) {
        const retryAfter = slot.retryAfterMs
        throw new HoldfastError('HF_RATE_LIMITED', { key, maxWait: formatDuration(maxWaitMs), retryAfter })
      }
      if (slot.waitMs > 0) await room.wait(slot.waitMs, options.signal)
    },
    async tryAcquire(key) {
      const { granted } = await limiter.reserve(checkLimitKey('limits.tryAcquire', key), 0)
      return granted
    },
    async close() {
      room.close()
      await limiter.close(GIVE_UP_AFTER)
    },
  }
}

function checkSignal(where: string, signal: unknown): AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return signal
  throw invalidOption(where, 'signal', 'must be an AbortSignal')
}
