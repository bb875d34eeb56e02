import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  checkMaxAttempts,
  normalizeRetryPolicy,
  type RetryPolicyInput,
  retryDelay,
  shouldRetry,
} from './retry-policy.js'

const delays = (input: RetryPolicyInput, attempts: readonly number[], random?: () => number) => {
  const policy = normalizeRetryPolicy(input)
  return attempts.map((attempt) => retryDelay(policy, attempt, random))
}

describe('retryDelay', () => {
  const huge = Number.MAX_SAFE_INTEGER
  it.each<[string, RetryPolicyInput, number[], number[]]>([
    ['K-07 the last delay of a list repeats', ['10s', '60s', '300s'], [1, 2, 3, 4, huge], [1e4, 6e4, 3e5, 3e5, 3e5]],
    ['K-07 an empty list means 30 s', [], [1, 2], [30_000, 30_000]],
    ['K-07 an empty list by its kind means 30 s too', { kind: 'list', delays: [] }, [1, 9], [30_000, 30_000]],
    ['K-07 a list may wait not at all', [0, '1s'], [1, 2], [0, 1000]],
    ['K-07 fixed is the same every time', { kind: 'fixed', delay: '5s' }, [1, 2, huge], [5000, 5000, 5000]],
    ['K-07 linear grows by its base', { kind: 'linear', base: '1s' }, [1, 2, 3], [1000, 2000, 3000]],
    ['K-07 linear grows by its increment', { kind: 'linear', base: 100, increment: 5 }, [1, 2, 3], [100, 105, 110]],
    ['K-07 linear stops at 5 min', { kind: 'linear', base: '1m' }, [5, 6, huge], [3e5, 3e5, 3e5]],
    ['K-07 exponential doubles', { kind: 'exponential', base: '1s' }, [1, 2, 3, 4], [1000, 2000, 4000, 8000]],
    ['K-07 exponential stops at 5 min', { kind: 'exponential', base: '1s' }, [9, 10, huge], [256_000, 3e5, 3e5]],
    ['K-07 exponential by its own factor', { kind: 'exponential', base: 100, factor: 1.5 }, [1, 2, 3], [100, 150, 225]],
    ['K-07 exponential to its own cap', { kind: 'exponential', base: '1s', cap: '3s' }, [2, 3, 4], [2000, 3000, 3000]],
    ['K-07 nothing doubled is nothing', { kind: 'exponential', base: 0 }, [1, huge], [0, 0]],
    ['K-07 a base over the default cap counts', { kind: 'exponential', base: '10m' }, [1, 2], [600_000, 600_000]],
  ])('%s', (_, policy, attempts, expected) => {
    expect(delays(policy, attempts)).toEqual(expected)
  })

  it.each<[string, RetryPolicyInput, number, number]>([
    ['a fraction takes away at most that much', { kind: 'fixed', delay: 1000, jitter: 0.2 }, 1, 800],
    ['a fraction takes away nothing at the least', { kind: 'fixed', delay: 1000, jitter: 0.2 }, 0, 1000],
    ['full jitter may take it all', { kind: 'fixed', delay: 1000, jitter: 'full' }, 1, 0],
    ['full jitter is spread evenly', { kind: 'list', delays: ['1s'], jitter: 'full' }, 0.25, 750],
    ['no jitter asks nobody', ['1s'], Number.NaN, 1000],
  ])('K-07 jitter: %s', (_, policy, chance, expected) => {
    expect(delays(policy, [1], () => chance)).toEqual([expected])
  })

  it('K-07 every delay is a whole number from 0 to the cap, for any policy and attempt', () => {
    const jitter = fc.option(fc.oneof(fc.double({ min: 0, max: 1, noNaN: true }), fc.constant('full' as const)), {
      nil: 0,
    })
    const base = fc.nat({ max: 1_000_000 })
    const policy = fc.oneof(
      fc.record({ kind: fc.constant('linear' as const), base, increment: base, jitter }),
      fc.record({
        kind: fc.constant('exponential' as const),
        base,
        factor: fc.double({ min: 1, max: 1e9, noNaN: true }),
        jitter,
      }),
    )
    fc.assert(
      fc.property(policy, fc.maxSafeNat(), fc.double({ min: 0, max: 1, noNaN: true }), (input, attempt, chance) => {
        const delay = retryDelay(normalizeRetryPolicy(input), attempt + (attempt === 0 ? 1 : 0), () => chance)
        expect(Number.isSafeInteger(delay)).toBe(true)
        expect(delay).toBeGreaterThanOrEqual(0)
        expect(delay).toBeLessThanOrEqual(Math.max(300_000, input.base))
      }),
    )
  })

  it.each([0, -1, 1.5, Number.NaN])('refuses attempt %d', (attempt) => {
    expect(() => retryDelay(normalizeRetryPolicy([]), attempt)).toThrow(/attempt/)
  })
})

describe('normalizeRetryPolicy', () => {
  it.each<[RetryPolicyInput, object]>([
    [['10s', 'PT1M'], { kind: 'list', delays: [10_000, 60_000], jitter: 0 }],
    [
      { kind: 'exponential', base: '1s' },
      { kind: 'exponential', base: 1000, factor: 2, cap: 300_000, jitter: 0 },
    ],
    [
      { kind: 'linear', base: '1s', jitter: 'full' },
      { kind: 'linear', base: 1000, increment: 1000, cap: 300_000, jitter: 1 },
    ],
    [
      { kind: 'fixed', delay: 5, jitter: 0.5 },
      { kind: 'fixed', delay: 5, jitter: 0.5 },
    ],
  ])('fills in %j, and changes nothing the second time', (input, expected) => {
    const policy = normalizeRetryPolicy(input)
    expect(policy).toEqual(expected)
    expect(normalizeRetryPolicy(policy)).toEqual(policy)
  })

  it.each<[unknown, string, string]>([
    [undefined, 'HF_INVALID_OPTION', 'must be a list of delays or an object with a `kind`, not undefined'],
    ['10s', 'HF_INVALID_OPTION', "must be a list of delays or an object with a `kind`, not '10s'"],
    [{ base: '1s' }, 'HF_INVALID_OPTION', 'not an object'],
    [{ kind: 'quadratic' }, 'HF_INVALID_OPTION', "must be one of 'list', 'fixed', 'linear', 'exponential'"],
    [{ kind: 'fixed' }, 'HF_INVALID_OPTION', 'option `delay` is required'],
    [{ kind: 'list', delays: '1s' }, 'HF_INVALID_OPTION', 'option `delays` must be a list'],
    [['1s', '2x'], 'HF_INVALID_DURATION', "option `delays[1]`: '2x' is not a duration"],
    [[undefined], 'HF_INVALID_OPTION', 'option `delays[0]` is required'],
    [{ kind: 'fixed', delay: '1s', jiter: 1 }, 'HF_UNKNOWN_OPTION', 'did you mean `jitter`?'],
    [{ kind: 'fixed', delay: '1s', factor: 2 }, 'HF_UNKNOWN_OPTION', 'unknown option `factor`'],
    [{ kind: 'exponential', base: '1s', factor: 0.5 }, 'HF_INVALID_OPTION', 'option `factor` must be a number of 1'],
    [{ kind: 'exponential', base: '1s', factor: Number.POSITIVE_INFINITY }, 'HF_INVALID_OPTION', 'option `factor`'],
    [
      { kind: 'exponential', base: '5s', cap: '1s' },
      'HF_INVALID_OPTION',
      'option `maxDelay` must be 5 s or more, not 1 s',
    ],
    [{ kind: 'fixed', delay: 1, jitter: 1.1 }, 'HF_INVALID_OPTION', "option `jitter` must be 'full' or a number"],
    [{ kind: 'fixed', delay: 1, jitter: Number.NaN }, 'HF_INVALID_OPTION', 'option `jitter`'],
  ])('refuses %j with %s', (input, code, message) => {
    expect(() => normalizeRetryPolicy(input, 'send')).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining(message) }),
    )
  })
})

describe('maxAttempts', () => {
  it.each([
    [1, 1, false],
    [1, 2, true],
    [2, 3, true],
    [3, 3, false],
    [4, 3, false],
  ])('counts all calls: after %d of %d, another one: %s', (attempt, maxAttempts, expected) => {
    expect(shouldRetry(attempt, maxAttempts)).toBe(expected)
  })

  it.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, '3', null, undefined])('refuses %s', (value) => {
    expect(() => checkMaxAttempts('send', value)).toThrow(/^send: option `maxAttempts`/)
  })
})
