import { describe, expect, it } from 'vitest'
import { type Retry, retryAsWritten, retryCountOption, retryOption } from './retry-option.js'
import { type RetryPolicy, retryDelay } from './retry-policy.js'

const given = (retry: unknown) => retryOption('define', 'retry', retry)
const delays = (policy: RetryPolicy | undefined, attempts = 5) =>
  policy && Array.from({ length: attempts }, (_, n) => retryDelay(policy, n + 1))

describe('K-07 the option `retry`', () => {
  it.each<[string, Retry, number | undefined, number[] | undefined]>([
    ['doubles', { maxAttempts: 5, delay: '1s' }, 5, [1_000, 2_000, 4_000, 8_000, 16_000]],
    [
      'grows by its factor to its most',
      { delay: 100, factor: 3, maxDelay: 1_000 },
      undefined,
      [100, 300, 900, 1e3, 1e3],
    ],
    ['is the same each time', { delay: '5s', factor: 1 }, undefined, [5e3, 5e3, 5e3, 5e3, 5e3]],
    ['begins with 1 s', { factor: 1 }, undefined, [1e3, 1e3, 1e3, 1e3, 1e3]],
    ['adds', { delay: '1s', increment: '2s', maxDelay: '6s' }, undefined, [1e3, 3e3, 5e3, 6e3, 6e3]],
    ['is a list', ['10s', '60s'], undefined, [1e4, 6e4, 6e4, 6e4, 6e4]],
    ['is a list with attempts', { maxAttempts: 2, delays: ['10s'] }, 2, [1e4, 1e4, 1e4, 1e4, 1e4]],
    ['is a number of attempts, and the delays are those of somebody else', { maxAttempts: 7 }, 7, undefined],
    ['is nothing', {}, undefined, undefined],
  ])('%s', (_, retry, maxAttempts, expected) => {
    const { policy, ...rest } = given(retry)
    expect(rest).toEqual({ maxAttempts })
    expect(delays(policy)).toEqual(expected)
    if (policy && maxAttempts) expect(given(retryAsWritten(maxAttempts, policy))).toEqual({ maxAttempts, policy })
  })

  it('takes jitter', () => {
    expect(given({ delay: '1s', jitter: 'full' }).policy).toMatchObject({ jitter: 1 })
    expect(given({ delays: ['1s'], jitter: 0.5 }).policy).toMatchObject({ jitter: 0.5 })
  })

  it.each<[unknown, string, string]>([
    [
      'often',
      'HF_INVALID_OPTION',
      'define: option `retry` must be a list of delays or an object with `maxAttempts` and',
    ],
    [null, 'HF_INVALID_OPTION', 'not null'],
    [3, 'HF_INVALID_OPTION', 'not 3'],
    [{ attempts: 3 }, 'HF_UNKNOWN_OPTION', 'define: retry: unknown option `attempts`'],
    [{ maxAttempts: 0 }, 'HF_INVALID_OPTION', 'define: retry: option `maxAttempts` must be from 1 to'],
    [{ delay: 'soon' }, 'HF_INVALID_DURATION', 'soon'],
    [{ delay: '5s', maxDelay: '1s' }, 'HF_INVALID_OPTION', 'option `maxDelay` must be 5 s or more, not 1 s'],
    [{ delay: '5s', factor: 0 }, 'HF_INVALID_OPTION', 'option `factor` must be a number of 1 or more'],
    [{ delays: ['1s'], delay: '1s' }, 'HF_INVALID_OPTION', 'option `delay` has no meaning beside `delays`'],
    [{ increment: '1s', factor: 2 }, 'HF_INVALID_OPTION', 'option `factor` has no meaning beside `increment`'],
  ])('refuses %j', (retry, code, message) => {
    expect(() => given(retry)).toThrow(expect.objectContaining({ code, message: expect.stringContaining(message) }))
  })
})

describe('U-07 where only the number of calls can be chosen', () => {
  it('takes it from the same option', () => {
    expect(retryCountOption('send', { maxAttempts: 5 })).toBe(5)
    expect(retryCountOption('send', undefined)).toBeUndefined()
  })

  it.each([5, null, {}, { maxAttempts: 5, delay: '1s' }, { maxAttempts: 0 }, ['1s']])('refuses %j', (retry) => {
    expect(() => retryCountOption('send', retry)).toThrow(/^send: retry: /)
  })
})
