import type { Duration } from '../duration/duration.js'
import { describe } from '../validation/describe.js'
import { invalidOption } from '../validation/invalid-option.js'
import { checkOptions } from '../validation/options.js'
import { checkMaxAttempts, normalizeRetryPolicy, type RetryPolicy } from './retry-policy.js'

/**
 * How often something is called, and how long apart. A bare list is the delays, one after the other; the last one repeats.
 *
 * @example
 * { maxAttempts: 5, delay: '1s' }                  // after 1, 2, 4 and 8 s
 * { maxAttempts: 5, delay: '10s', factor: 1 }      // every 10 s
 * ['10s', '60s', '300s']
 */
export type Retry =
  | readonly Duration[]
  | {
      /** All calls, the first included. */
      readonly maxAttempts?: number
      /** Before the second call. Default: 1 s; where only `maxAttempts` is given, the delays of the definition or the worker. */
      readonly delay?: Duration
      /** What each further delay is multiplied by. With 1 all are the same. Default: 2. */
      readonly factor?: number
      /** What is added to each further delay, instead of multiplying it. */
      readonly increment?: Duration
      /** No delay grows beyond this. Default: 5 minutes. */
      readonly maxDelay?: Duration
      /** The delays one after the other, instead of `delay`; the last one repeats. */
      readonly delays?: readonly Duration[]
      /** How much of each delay is random: from 0 (nothing, the default) to 1 (all of it, as with `'full'`). */
      readonly jitter?: number | 'full'
    }

/** Where only the number of calls can be chosen: the time between them is decided elsewhere. */
export type RetryCount = { readonly maxAttempts: number }

/** The fields that were given; the others come from the definition, the worker or a default. */
export interface GivenRetry {
  readonly maxAttempts: number | undefined
  readonly policy: RetryPolicy | undefined
}

const NAMES = ['maxAttempts', 'delay', 'factor', 'increment', 'maxDelay', 'delays', 'jitter'] as const

/**
 * Checks the option `retry`, or another one of the same kind.
 *
 * @example
 * const { maxAttempts = 3, policy = defaultPolicy } = retryOption('defineCommand payments/Pay', 'retry', given.retry)
 */
export function retryOption(where: string, name: string, value: unknown): GivenRetry {
  if (value === undefined) return { maxAttempts: undefined, policy: undefined }
  if (Array.isArray(value)) return { maxAttempts: undefined, policy: normalizeRetryPolicy(value, where) }
  if (typeof value !== 'object' || value === null) {
    throw invalidOption(
      where,
      name,
      `must be a list of delays or an object with \`maxAttempts\` and \`delay\`, not ${describe(value)}`,
    )
  }
  const at = `${where}: ${name}`
  const { maxAttempts, ...delays } = checkOptions(at, value, NAMES)
  return {
    maxAttempts: maxAttempts === undefined ? undefined : checkMaxAttempts(at, maxAttempts),
    policy: policyOf(at, delays),
  }
}

/** A stored policy as a user would have written it. */
export function retryAsWritten(maxAttempts: number, policy: RetryPolicy): Retry {
  const { jitter } = policy
  switch (policy.kind) {
    case 'list':
      return { maxAttempts, delays: policy.delays, jitter }
    case 'fixed':
      return { maxAttempts, delay: policy.delay, factor: 1, jitter }
    case 'linear':
      return { maxAttempts, delay: policy.base, increment: policy.increment, maxDelay: policy.cap, jitter }
    case 'exponential':
      return { maxAttempts, delay: policy.base, factor: policy.factor, maxDelay: policy.cap, jitter }
  }
}

/** The same where only the number of calls can be chosen. */
export function retryCountOption(where: string, value: unknown): number | undefined {
  if (value === undefined) return undefined
  const { maxAttempts } = checkOptions(`${where}: retry`, value ?? null, ['maxAttempts'])
  return checkMaxAttempts(`${where}: retry`, maxAttempts)
}

type Delays = Partial<Record<Exclude<(typeof NAMES)[number], 'maxAttempts'>, unknown>>

function policyOf(
  where: string,
  { delay, factor, increment, maxDelay, delays, jitter }: Delays,
): RetryPolicy | undefined {
  const chance = jitter === undefined ? {} : { jitter }
  const cap = maxDelay === undefined ? {} : { cap: maxDelay }
  const base = delay ?? '1s'
  if (delays !== undefined) {
    refuseBeside(where, 'delays', { delay, factor, increment, maxDelay })
    return normalizeRetryPolicy({ kind: 'list', delays, ...chance }, where)
  }
  if (increment !== undefined) {
    refuseBeside(where, 'increment', { factor })
    return normalizeRetryPolicy({ kind: 'linear', base, increment, ...cap, ...chance }, where)
  }
  if (factor === 1) return normalizeRetryPolicy({ kind: 'fixed', delay: base, ...chance }, where)
  if ([delay, factor, maxDelay, jitter].every((given) => given === undefined)) return undefined
  const growth = factor === undefined ? {} : { factor }
  return normalizeRetryPolicy({ kind: 'exponential', base, ...growth, ...cap, ...chance }, where)
}

function refuseBeside(where: string, name: string, others: Readonly<Record<string, unknown>>): void {
  const option = Object.keys(others).find((other) => others[other] !== undefined)
  if (option === undefined) return
  throw invalidOption(where, option, `has no meaning beside \`${name}\``)
}
