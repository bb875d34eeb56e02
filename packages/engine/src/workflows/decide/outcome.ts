import { classifyFailure, type Failure } from '../../kernel/failure/classify.js'
import { PermanentError, TransientError } from '../../kernel/failure/failure-errors.js'
import { type CallOutcome, outcomeOfFailure } from '../../kernel/model/index.js'
import { shouldRetry } from '../../kernel/retry/retry-policy.js'
import type { CallSettings } from '../definition/definition.js'
import type { KnownOfCall } from './instance-event.js'

/** What is known of the effects of calls, and the failures that the engine itself finds. */

type FailedOutcome = Exclude<CallOutcome, 'completed'>

/** What is known of all calls together, after one more has failed. */
export function outcomeAfter<Before extends CallOutcome | null>(
  before: Before,
  failure: Failure,
  known: KnownOfCall | undefined,
): Before | FailedOutcome {
  if (known === 'notBegun') return before
  // `inquire` gets the idempotency key, which all attempts share.
  if (known === 'notDone') return 'refused'
  return before === 'unknown' ? 'unknown' : outcomeOfFailure(failure)
}

/** The worker that had the call has died, or was cut off. */
export function lostCall({ maxAttempts, nonIdempotent }: CallSettings, attempts: number): Failure {
  const what = 'the worker died during the call'
  if (nonIdempotent) return unknownOutcome(what)
  if (shouldRetry(attempts, maxAttempts)) return found(new TransientError(what, { code: 'CALL_LOST' }))
  return found(new PermanentError(`${what}, and it was the last`, { code: 'ATTEMPTS_EXHAUSTED_BY_CRASH' }))
}

export const interruptedCall = (): Failure =>
  found(new TransientError('the worker was stopped during the call', { code: 'CALL_INTERRUPTED' }))

/** The end of a call that must not be repeated: only a person, or `inquire`, can find out its outcome. */
export function unknownOutcome(what: string): Failure {
  return found(new PermanentError(`${what}; whether it had its effect is unknown`, { code: 'OUTCOME_UNKNOWN' }))
}

/** A failure that the engine itself found: it says nothing about what the external system did. */
function found(error: Error): Failure {
  const { refused: _, ...failure } = classifyFailure(error, { unknown: 'permanent' })
  return failure
}
