import { describe, expect, it } from 'vitest'
import { classifyFailure } from '../../kernel/failure/classify.js'
import { BusinessError, PermanentError, TransientError } from '../../kernel/failure/failure-errors.js'
import { normalizeRetryPolicy } from '../../kernel/retry/retry-policy.js'
import { decideFailedCall, decideFailure, toRecorded, trouble } from './decisions.js'

const failure = (error: unknown) => classifyFailure(error, { unknown: 'permanent' })
const transient = failure(new TransientError('busy', { code: 'BUSY' }))
const permanent = failure(new PermanentError('no', { code: 'NO' }))
const business = failure(new BusinessError('declined', { code: 'DECLINED' }))
const policy = normalizeRetryPolicy({ kind: 'exponential', base: '1s' })
const call = { attempts: 1, retry: { maxAttempts: 1, policy }, onFailure: 'tsq' } as const

describe('the decision about a call that failed', () => {
  it.each([
    ['the first of three', 1, 3, 'WAITING_RETRY', 1_000],
    ['the second of three', 2, 3, 'WAITING_RETRY', 2_000],
    ['the third of three', 3, 3, 'FAILED', undefined],
    ['the only one', 1, 1, 'FAILED', undefined],
  ] as const)('P-13 a transient failure: %s', (_, attempts, maxAttempts, status, delayMs) => {
    const decision = decideFailedCall(transient, { ...call, attempts, retry: { maxAttempts, policy } })
    expect(decision).toMatchObject({ status, ...(delayMs === undefined ? {} : { delayMs }) })
  })

  it.each([
    ['permanent', permanent],
    ['business', business],
  ] as const)('P-13 a %s failure is not tried again, however many attempts are left', (_, failed) => {
    expect(decideFailedCall(failed, { ...call, retry: { maxAttempts: 9, policy } }).status).toBe('FAILED')
  })

  it.each([transient, permanent, business])('P-13 with throw it is final and thrown: $kind', (failed) => {
    expect(decideFailedCall(failed, { ...call, onFailure: 'throw' })).toEqual({ status: 'FAILED', thrown: true })
  })

  it('P-13 with throw it is tried as often as it may', () => {
    expect(decideFailedCall(transient, { ...call, retry: { maxAttempts: 2, policy }, onFailure: 'throw' }).status).toBe(
      'WAITING_RETRY',
    )
  })
})

describe('the effect of an uncaught failure on the process', () => {
  it.each([
    [transient, { to: 'TSQ', error: { code: 'RETRIES_EXHAUSTED', message: 'BUSY: busy', kind: 'PERMANENT' } }],
    [
      permanent,
      { to: 'TSQ', error: { code: 'PERMANENT_FAILURE', message: 'NO: no', cause: { code: 'NO', message: 'no' } } },
    ],
    [business, { to: 'UNWIND', end: 'COMPENSATED', reason: 'FAILURE', error: { code: 'DECLINED' } }],
  ] as const)('P-13 P-14 %#', (failed, expected) => {
    expect(decideFailure(toRecorded(failed))).toMatchObject(expected)
  })

  it('a troubleshooting entry keeps the group of its failure, and does not repeat its own code', () => {
    expect(trouble('NO', toRecorded(permanent)).error).toMatchObject({
      message: 'no',
      fingerprint: permanent.fingerprint,
    })
  })
})
