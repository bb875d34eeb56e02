import { type Duration, toMilliseconds } from '../duration/duration.js'
import { describe } from '../validation/describe.js'
import { invalidOption } from '../validation/invalid-option.js'
import { checkOptions, choiceOption, durationOption, integerOption } from '../validation/options.js'

/** How much of a delay is random: from 0 (none) to 1 (all of it), for which `'full'` is another name. */
type Jitter = number | 'full'

/** The delays between calls. A bare list is the delays one after the other; the last one repeats. Users write `Retry`. */
export type RetryPolicyInput =
  | readonly Duration[]
  | { readonly kind: 'list'; readonly delays: readonly Duration[]; readonly jitter?: Jitter }
  | { readonly kind: 'fixed'; readonly delay: Duration; readonly jitter?: Jitter }
  | {
      readonly kind: 'linear'
      readonly base: Duration
      /** Default: the base. */
      readonly increment?: Duration
      readonly cap?: Duration
      readonly jitter?: Jitter
    }
  | {
      readonly kind: 'exponential'
      readonly base: Duration
      /** Default: 2. */
      readonly factor?: number
      readonly cap?: Duration
      readonly jitter?: Jitter
    }

/** The same with everything filled in, in milliseconds. It is itself a valid input. */
export type RetryPolicy =
  | { readonly kind: 'list'; readonly delays: readonly number[]; readonly jitter: number }
  | { readonly kind: 'fixed'; readonly delay: number; readonly jitter: number }
  | {
      readonly kind: 'linear'
      readonly base: number
      readonly increment: number
      readonly cap: number
      readonly jitter: number
    }
  | {
      readonly kind: 'exponential'
      readonly base: number
      readonly factor: number
      readonly cap: number
      readonly jitter: number
    }

const kinds = ['list', 'fixed', 'linear', 'exponential'] as const
const delayOfEmptyList = toMilliseconds('30s')
const defaultCap = toMilliseconds('5m')

/**
 * Checks what a user wrote and fills in the rest.
 *
 * @example
 * normalizeRetryPolicy(['10s', '60s', '300s'])
 * normalizeRetryPolicy({ kind: 'exponential', base: '1s', jitter: 0.2 })
 */
export function normalizeRetryPolicy(input: unknown, where = 'retry'): RetryPolicy {
  if (Array.isArray(input)) return { kind: 'list', delays: delaysOf(where, input), jitter: 0 }
  if (typeof input !== 'object' || input === null || !('kind' in input)) {
    throw invalidOption(where, 'retry', `must be a list of delays or an object with a \`kind\`, not ${describe(input)}`)
  }
  const kind = choiceOption(where, 'kind', input.kind, kinds)
  switch (kind) {
    case 'list': {
      const given = checkOptions(where, input, ['kind', 'delays', 'jitter'])
      return { kind, delays: delaysOf(where, given.delays), jitter: jitterOf(where, given.jitter) }
    }
    case 'fixed': {
      const given = checkOptions(where, input, ['kind', 'delay', 'jitter'])
      return { kind, delay: durationOption(where, 'delay', given.delay), jitter: jitterOf(where, given.jitter) }
    }
    case 'linear': {
      const given = checkOptions(where, input, ['kind', 'base', 'increment', 'cap', 'jitter'])
      const base = durationOption(where, 'delay', given.base)
      const increment = durationOption(where, 'increment', given.increment, { default: base })
      return { kind, base, increment, cap: capOf(where, given.cap, base), jitter: jitterOf(where, given.jitter) }
    }
    case 'exponential': {
      const given = checkOptions(where, input, ['kind', 'base', 'factor', 'cap', 'jitter'])
      const base = durationOption(where, 'delay', given.base)
      const factor = factorOf(where, given.factor)
      return { kind, base, factor, cap: capOf(where, given.cap, base), jitter: jitterOf(where, given.jitter) }
    }
  }
}

/**
 * How long to wait after `attempt` calls have failed, in milliseconds. Jitter only ever shortens the wait, so a cap
 * holds with it too.
 *
 * @example
 * retryDelay(normalizeRetryPolicy(['10s', '60s']), 1)   // 10000
 */
export function retryDelay(policy: RetryPolicy, attempt: number, random: () => number = Math.random): number {
  const retry = integerOption('retryDelay', 'attempt', attempt, { min: 1 }) - 1
  const delay = fullDelay(policy, retry)
  return policy.jitter === 0 ? delay : Math.round(delay * (1 - policy.jitter * random()))
}

/**
 * Whether another call is allowed after `attempt` calls have been made. `maxAttempts` counts all calls, the first
 * included.
 *
 * @example
 * shouldRetry(3, 3)   // false
 */
export function shouldRetry(attempt: number, maxAttempts: number): boolean {
  return attempt < checkMaxAttempts('shouldRetry', maxAttempts)
}

/**
 * The total number of calls, checked: a whole number, 1 or more.
 *
 * @example
 * checkMaxAttempts('send', options.maxAttempts ?? definition.maxAttempts)
 */
export function checkMaxAttempts(where: string, value: unknown): number {
  return integerOption(where, 'maxAttempts', value, { min: 1, max: 1_000_000_000 })
}

function fullDelay(policy: RetryPolicy, retry: number): number {
  switch (policy.kind) {
    case 'list':
      return policy.delays[Math.min(retry, policy.delays.length - 1)] ?? delayOfEmptyList
    case 'fixed':
      return policy.delay
    case 'linear':
      return Math.min(policy.base + retry * policy.increment, policy.cap)
    case 'exponential':
      // The power of a large attempt is Infinity, which the cap takes care of; but 0 times that is not a number.
      return policy.base === 0 ? 0 : Math.round(Math.min(policy.base * policy.factor ** retry, policy.cap))
  }
}

function delaysOf(where: string, delays: unknown): readonly number[] {
  if (!Array.isArray(delays)) throw invalidOption(where, 'delays', `must be a list of delays, not ${describe(delays)}`)
  if (delays.length === 0) return [delayOfEmptyList]
  return Array.from(delays, (delay: unknown, index) => durationOption(where, `delays[${index}]`, delay))
}

/** The default gives way to a larger base: the first retry comes after the base delay. */
function capOf(where: string, cap: unknown, base: number): number {
  return durationOption(where, 'maxDelay', cap, { min: base, default: Math.max(defaultCap, base) })
}

function factorOf(where: string, factor: unknown): number {
  if (factor === undefined) return 2
  if (typeof factor === 'number' && Number.isFinite(factor) && factor >= 1) return factor
  throw invalidOption(where, 'factor', `must be a number of 1 or more, not ${describe(factor)}`)
}

function jitterOf(where: string, jitter: unknown): number {
  if (jitter === undefined) return 0
  if (jitter === 'full') return 1
  if (typeof jitter === 'number' && jitter >= 0 && jitter <= 1) return jitter
  throw invalidOption(where, 'jitter', `must be 'full' or a number from 0 to 1, not ${describe(jitter)}`)
}
