import type { Failure } from '../../kernel/failure/classify.js'
import { retryDelay, shouldRetry } from '../../kernel/retry/retry-policy.js'
import { lostCall } from './calls.js'
import { continueRollback } from './rollback.js'
import type { StepState } from './state.js'
import { stepEvent, type Transition } from './transition.js'

/** What became of the handlers of compensations. They are tried again whatever failed (K-08). */

export function claimCompensation(t: Transition, step: StepState, uncounted = false): void {
  if (step.status !== 'COMPENSATING') {
    t.dequeue(step.name, 'compensation')
    if (step.inFlight) t.change(step, { inFlight: false })
    return
  }
  const counted = step.compensationAttempts - (step.inFlight && uncounted ? 1 : 0)
  const lost = step.inFlight ? lostCall(t.call(step.name, 'compensation'), counted) : undefined
  if (lost !== undefined && lost.kind !== 'TRANSIENT') {
    exhausted(t, step, lost)
    return
  }
  const compensationAttempts = counted + 1
  t.change(step, { compensationAttempts, inFlight: true })
  t.callHandler(step.name, 'compensation', compensationAttempts)
}

export function stepCompensated(t: Transition, step: StepState): void {
  if (!step.inFlight) return
  t.dequeue(step.name, 'compensation')
  const undone = t.change(step, { status: 'ROLLED_BACK', inFlight: false })
  t.write(stepEvent('compensation_success', undone, { attempts: undone.compensationAttempts }))
  continueRollback(t)
}

export function compensationFailed(t: Transition, step: StepState, failure: Failure): void {
  if (!step.inFlight) return
  t.dequeue(step.name, 'compensation')
  // Aborted meanwhile: the step is what it was before.
  if (step.status !== 'COMPENSATING') {
    t.change(step, { inFlight: false })
    return
  }
  const { maxAttempts, retry } = t.call(step.name, 'compensation')
  if (!shouldRetry(step.compensationAttempts, maxAttempts)) {
    exhausted(t, step, failure)
    return
  }
  const waiting = t.change(step, { inFlight: false })
  t.enqueue(step.name, 'compensation', retryDelay(retry, step.compensationAttempts, t.surroundings.random))
  t.write(stepEvent('compensation_retry', waiting, { failure, attempts: waiting.compensationAttempts }))
}

/** A person has to see to it; the others are undone all the same. */
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
export function compensationGivenBack(t: Transition, step: StepState, delayMs: number): void {
  if (!step.inFlight) return
  const compensationAttempts = Math.max(0, step.compensationAttempts - 1)
  t.change(step, { compensationAttempts, inFlight: false })
  if (step.status === 'COMPENSATING') t.enqueue(step.name, 'compensation', delayMs)
  else t.dequeue(step.name, 'compensation')
}
