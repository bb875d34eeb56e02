import type { Failure } from '../../kernel/failure/classify.js'
import { retryDelay, shouldRetry } from '../../kernel/retry/retry-policy.js'
import type { RecordedFailure } from '../history.js'
import type { EndStatus } from '../states.js'
import type { Attempts } from './call-spec.js'

/** What happens to the process as a whole, once everything that runs has been recorded. */
export type FinalDecision =
  | { readonly to: 'TSQ'; readonly error: RecordedFailure }
  | {
      readonly to: 'UNWIND'
      readonly end: EndStatus
      readonly reason: 'FAILURE' | 'DEADLINE' | 'CANCEL' | 'TIMEOUT'
      readonly error: RecordedFailure | undefined
    }
  | { readonly to: 'END'; readonly end: EndStatus; readonly error: RecordedFailure | undefined }

/** What becomes of a call that failed. */
export type FailedCall =
  | { readonly status: 'WAITING_RETRY'; readonly delayMs: number }
  | { readonly status: 'FAILED'; readonly thrown: true }
  | { readonly status: 'FAILED'; readonly thrown: false; readonly finalDecision: FinalDecision }

export function decideFailedCall(
  failure: Failure,
  call: {
    readonly attempts: number
    readonly retry: Attempts
    readonly onFailure: 'tsq' | 'throw'
  },
): FailedCall {
  const retryable = failure.kind === 'TRANSIENT' && shouldRetry(call.attempts, call.retry.maxAttempts)
  if (retryable) return { status: 'WAITING_RETRY', delayMs: retryDelay(call.retry.policy, call.attempts) }
  if (call.onFailure === 'throw') return { status: 'FAILED', thrown: true }
  return { status: 'FAILED', thrown: false, finalDecision: decideFailure(toRecorded(failure)) }
}

/** What a failure that user code does not catch does to the process. */
export function decideFailure(error: RecordedFailure): FinalDecision {
  if (error.kind === 'BUSINESS') return { to: 'UNWIND', end: 'COMPENSATED', reason: 'FAILURE', error }
  return trouble(error.kind === 'TRANSIENT' ? 'RETRIES_EXHAUSTED' : 'PERMANENT_FAILURE', error)
}

/** Into troubleshooting under one of our own codes; what went wrong stays in the message and in the group. */
export function trouble(code: string, error: Omit<RecordedFailure, 'kind'>): Extract<FinalDecision, { to: 'TSQ' }> {
  const message = error.code === code ? error.message : `${error.code}: ${error.message}`
  const { fingerprint, stack } = error
  return {
    to: 'TSQ',
    error: { kind: 'PERMANENT', code, message, fingerprint, ...(stack === undefined ? {} : { stack }) },
  }
}

export function toRecorded({ kind, code, message, fingerprint, details, stack }: Failure): RecordedFailure {
  return {
    kind,
    code,
    message,
    fingerprint,
    ...(details === undefined ? {} : { details }),
    ...(stack === undefined ? {} : { stack }),
  }
}
