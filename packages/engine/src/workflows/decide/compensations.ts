// The life of a compensation's call: claimed, completed, failed, interrupted, released. `decide.ts` calls it with the events of workers.
// Pure. Compensations are retried whatever failed; one that fails for good must leave a dead letter, and the others are still undone.

import type { Failure } from '../../kernel/failure/classify.js'
import { retryDelay, shouldRetry } from '../../kernel/retry/retry-policy.js'
import { asUnknown, inquiryBefore, mayInquire } from './calls.js'
import type { Call } from './decision.js'
import type { KnownOfCall, LostCall } from './instance-event.js'
import { lostCall, outcomeAfter } from './outcome.js'
import { continueRollback } from './rollback.js'
import type { StepState } from './state.js'
import { stepEvent, type Transition } from './transition.js'

export function claimCompensation(t: Transition, step: StepState, lost: LostCall): void {
  if (step.status !== 'COMPENSATING') {
    t.dequeue(step.name, 'compensation')
    if (step.inFlight) t.change(step, { inFlight: false })
  } else if (step.inFlight) claimLost(t, step, lost)
  else begin(t, step, inquiryBefore(t.call(step.name, 'compensation'), step.compensationOutcome))
}

function begin(t: Transition, step: StepState, inquire: Pick<Call, 'inquire'> | undefined): void {
  const compensationAttempts = step.compensationAttempts + 1
  t.change(step, { compensationAttempts, inFlight: true })
  t.callHandler({ step: step.name, kind: 'compensation', attempt: compensationAttempts, ...inquire })
}

function claimLost(t: Transition, step: StepState, { canInquire = false, uncounted = false }: LostCall): void {
  const settings = t.call(step.name, 'compensation')
  const attempts = step.compensationAttempts - (uncounted ? 1 : 0)
  const unknown: StepState = { ...step, compensationOutcome: 'unknown', compensationAttempts: attempts }
  const failure = lostCall(settings, attempts)
  if (canInquire && mayInquire(settings, attempts)) {
    begin(t, unknown, { inquire: shouldRetry(attempts, settings.maxAttempts) ? 'first' : 'only' })
  } else if (failure.kind === 'TRANSIENT') begin(t, unknown, undefined)
  else exhausted(t, { ...unknown, compensationAttempts: step.compensationAttempts }, failure)
}

export function stepCompensated(t: Transition, step: StepState): void {
  if (!step.inFlight) return
  t.dequeue(step.name, 'compensation')
  const undone = t.change(step, { status: 'ROLLED_BACK', inFlight: false })
  t.write(stepEvent('compensation_success', undone, { attempts: undone.compensationAttempts }))
  continueRollback(t)
}

export function compensationFailed(
  t: Transition,
  step: StepState,
  { failure, known }: { readonly failure: Failure; readonly known?: KnownOfCall },
): void {
  if (!step.inFlight) return
  t.dequeue(step.name, 'compensation')
  const compensationOutcome = outcomeAfter(step.compensationOutcome, failure, known)
  // Aborted meanwhile: the step is what it was before.
  if (step.status !== 'COMPENSATING') {
    t.change(step, { inFlight: false, compensationOutcome })
    return
  }
  const { maxAttempts, retry, nonIdempotent } = t.call(step.name, 'compensation')
  const ended = { ...step, compensationOutcome }
  if (nonIdempotent && compensationOutcome === 'unknown') exhausted(t, ended, asUnknown(failure))
  else if (!shouldRetry(step.compensationAttempts, maxAttempts)) exhausted(t, ended, failure)
  else {
    const waiting = t.change(ended, { inFlight: false })
    t.enqueue(step.name, 'compensation', retryDelay(retry, step.compensationAttempts, t.surroundings.random))
    t.write(stepEvent('compensation_retry', waiting, { failure, attempts: waiting.compensationAttempts }))
  }
}

/** It needs a person; the other steps are still undone. */
function exhausted(t: Transition, step: StepState, failure: Failure): void {
  t.dequeue(step.name, 'compensation')
  const failed = t.change(step, { status: 'FAILED', inFlight: false, failure, dlq: true })
  const attempts = failed.compensationAttempts
  t.addDeadLetter(failed, 'compensation', failure, 'the compensation failed for good')
  t.write(stepEvent('compensation_max_retries_exceeded', failed, { failure, attempts }))
  t.write(stepEvent('dlq_created', failed, { failure }))
  continueRollback(t)
}

/** Claimed, and never called. */
export function compensationReleased(t: Transition, step: StepState, delayMs: number): void {
  queueAgain(t, step, {}, delayMs)
}

/** The worker was stopped in order during the call: it is made again elsewhere, and this call does not count. */
export function compensationInterrupted(t: Transition, step: StepState): void {
  queueAgain(t, step, { compensationOutcome: 'unknown' }, 0)
}

function queueAgain(t: Transition, step: StepState, change: Partial<StepState>, delayMs: number): void {
  if (!step.inFlight) return
  const compensationAttempts = Math.max(0, step.compensationAttempts - 1)
  t.change(step, { ...change, compensationAttempts, inFlight: false })
  if (step.status === 'COMPENSATING') t.enqueue(step.name, 'compensation', delayMs)
  else t.dequeue(step.name, 'compensation')
}
