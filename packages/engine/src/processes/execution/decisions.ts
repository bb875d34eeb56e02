import type { Failure } from '../../kernel/failure/classify.js'
import { retryDelay, shouldRetry } from '../../kernel/retry/retry-policy.js'
import type { OnTimeout } from '../context.js'
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
  /** Thrown into user code, or decided by the engine. */
  | { readonly status: 'FAILED'; readonly thrown: boolean }

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
  return { status: 'FAILED', thrown: call.onFailure === 'throw' }
}

/** What a failure that user code does not catch does to the process. */
export function decideFailure(error: RecordedFailure): FinalDecision {
  if (error.kind === 'BUSINESS') return { to: 'UNWIND', end: 'COMPENSATED', reason: 'FAILURE', error }
  const decision = trouble(error.kind === 'TRANSIENT' ? 'RETRIES_EXHAUSTED' : 'PERMANENT_FAILURE', error)
  const { code, message } = error
  return { ...decision, error: { ...decision.error, cause: { code, message } } }
}

/** A wait timed out, or the deadline has passed: the error says which. */
export function decideLate(action: OnTimeout, reason: 'TIMEOUT' | 'DEADLINE', error: RecordedFailure): FinalDecision {
  if (action === 'compensate') return { to: 'UNWIND', end: 'COMPENSATED', reason, error }
  if (action === 'fail') return { to: 'END', end: 'FAILED', error }
  return trouble(error.code, error)
}

export function decideCancel(cancel: 'PLAIN' | 'COMPENSATE'): FinalDecision {
  if (cancel === 'PLAIN') return { to: 'END', end: 'CANCELLED', error: undefined }
  return { to: 'UNWIND', end: 'CANCELLED', reason: 'CANCEL', error: undefined }
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
