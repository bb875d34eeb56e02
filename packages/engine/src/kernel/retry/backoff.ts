import type { Duration } from '../duration/duration.js'
import { checkOptions, durationOption } from '../validation/options.js'

/** How long to wait before the next attempt; `reset` after the database has responded. */
export interface Backoff {
  next(): number
  reset(): void
}

export interface BackoffOptions {
  /** The shortest wait. Default: 50 ms. */
  readonly base?: Duration
  /** The longest wait. Default: 5 s. */
  readonly cap?: Duration
  readonly random?: () => number
}

/**
 * The back-off for database trouble, with decorrelated jitter: each wait is anything between the base and three
 * times the last one. Thousands of workers that lost the same server at the same moment come back spread out, and
 * unlike with full jitter none of them ever asks without a pause.
 *
 * @example
 * const backoff = createBackoff()
 * while (!(await connected())) await wait(backoff.next())
 * backoff.reset()
 */
export function createBackoff(options: BackoffOptions = {}): Backoff {
  checkOptions('createBackoff', options, ['base', 'cap', 'random'])
  const { random = Math.random } = options
  const base = durationOption('createBackoff', 'base', options.base, { min: 1, default: 50 })
  const cap = durationOption('createBackoff', 'cap', options.cap, { min: base, default: Math.max(5000, base) })
  let last = base
  return {
    next() {
      last = Math.min(cap, Math.round(base + random() * (last * 3 - base)))
      return last
    },
    reset() {
      last = base
    },
  }
}
