import { describe, expect, it } from 'vitest'
import { classifyFailure } from '../../kernel/failure/classify.js'
import { BusinessError, PermanentError, TransientError } from '../../kernel/failure/failure-errors.js'
import { decideFailedCall, retryDelay, toRecorded, trouble, verdictOn } from './decisions.js'

const failure = (error: unknown) => classifyFailure(error, { unknown: 'permanent' })
const transient = failure(new TransientError('busy', { code: 'BUSY' }))
const permanent = failure(new PermanentError('no', { code: 'NO' }))
const business = failure(new BusinessError('declined', { code: 'DECLINED' }))
const call = { attempts: 1, maxAttempts: 1, retryDelayMs: 1_000, onFailure: 'tsq' } as const

describe('what becomes of a call that failed', () => {
  it.each([
    ['the first of three', 1, 3, 'WAITING_RETRY', 1_000],
    ['the second of three', 2, 3, 'WAITING_RETRY', 2_000],
    ['the third of three', 3, 3, 'FAILED', undefined],
    ['the only one', 1, 1, 'FAILED', undefined],
  ] as const)('P-13 a transient failure: %s', (_, attempts, maxAttempts, status, delayMs) => {
    const decision = decideFailedCall(transient, { ...call, attempts, maxAttempts })
    expect(decision).toMatchObject({ status, ...(delayMs === undefined ? {} : { delayMs }) })
  })

  it.each([
    ['permanent', permanent],
    ['business', business],
  ] as const)('P-13 a %s failure is not tried again, however many attempts are left', (_, failed) => {
    expect(decideFailedCall(failed, { ...call, maxAttempts: 9 }).status).toBe('FAILED')
  })

  it.each([transient, permanent, business])('P-13 with throw it is final and thrown: $kind', (failed) => {
    expect(decideFailedCall(failed, { ...call, onFailure: 'throw' })).toEqual({ status: 'FAILED', thrown: true })
  })

  it('P-13 with throw it is tried as often as it may', () => {
    expect(decideFailedCall(transient, { ...call, maxAttempts: 2, onFailure: 'throw' }).status).toBe('WAITING_RETRY')
  })
})

describe('what a failure that nobody catches does to the process', () => {
  it.each([
    [transient, { to: 'TSQ', error: { code: 'RETRIES_EXHAUSTED', message: 'BUSY: busy', kind: 'PERMANENT' } }],
    [permanent, { to: 'TSQ', error: { code: 'PERMANENT_FAILURE', message: 'NO: no' } }],
    [business, { to: 'UNWIND', end: 'COMPENSATED', reason: 'FAILURE', error: { code: 'DECLINED' } }],
  ] as const)('P-13 P-14 %#', (failed, expected) => {
    expect(verdictOn(toRecorded(failed))).toMatchObject(expected)
  })

  it('troubles keep the group of what went wrong, and do not say their own code twice', () => {
    expect(trouble('NO', toRecorded(permanent)).error).toMatchObject({
      message: 'no',
      fingerprint: permanent.fingerprint,
    })
  })
})

describe('the delay before the next attempt', () => {
  it.each([
    [1_000, 1, 1_000],
    [1_000, 2, 2_000],
    [1_000, 9, 256_000],
    [1_000, 10, 300_000],
    [1_000, 5_000, 300_000],
    [0, 3, 0],
    [600_000, 1, 600_000],
    [600_000, 2, 600_000],
  ])('P-13 base %i after %i failures: %i ms', (base, failed, expected) => {
    expect(retryDelay(base, failed)).toBe(expected)
  })
})
