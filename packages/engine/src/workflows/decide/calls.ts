// The life of a step's call: claimed, completed, failed, interrupted, released. `decide.ts` calls it with the events of
// workers. Pure. A call of unknown outcome must stay known as such until it is inquired about, settled by an operator,
// or compensated.

import type { Failure } from '../../kernel/failure/classify.js'
import { retryDelay, shouldRetry } from '../../kernel/retry/retry-policy.js'
import type { CallSettings } from '../definition/definition.js'
import { instanceHasEnded } from '../states.js'
import { complete, proceed } from './advance.js'
import type { Call } from './decision.js'
import { giveUp } from './fail.js'
import type { KnownOfCall, LostCall } from './instance-event.js'
import { interruptedCall, lostCall, outcomeAfter, unknownOutcome } from './outcome.js'
import { continueRollback } from './rollback.js'
import { endOfCalls } from './skip.js'
import type { Payload, StepState } from './state.js'
import { stepEvent, type Transition } from './transition.js'

export function claimStep(t: Transition, step: StepState, lost: LostCall): void {
  if (step.inFlight) claimLost(t, step, lost)
  else if (step.status === 'PENDING' && t.status === 'RUNNING') begin(t, step)
  else t.dequeue(step.name, 'step')
}

function begin(t: Transition, step: StepState): void {
  const attempts = step.attempts + 1
  const running = t.change(step, { status: 'RUNNING', attempts, inFlight: true })
  const inquire = inquiryBefore(t.call(step.name, 'step'), step.outcome)
  t.callHandler({ step: step.name, kind: 'step', attempt: attempts, ...inquire })
  t.write(stepEvent('step_started', running, { attempts }))
}

/** A call that must not be repeated, after one of unknown outcome: a person has requeued it, or its worker was stopped. */
export function inquiryBefore(
  { nonIdempotent }: CallSettings,
  outcome: StepState['outcome'],
): Pick<Call, 'inquire'> | undefined {
  return nonIdempotent && outcome === 'unknown' ? { inquire: 'first' } : undefined
}

/** The worker that had it has died, was cut off or stopped: what its call did is unknown. */
function claimLost(t: Transition, step: StepState, { canInquire = false, uncounted = false }: LostCall): void {
  const settings = t.call(step.name, 'step')
  const attempts = step.attempts - (uncounted ? 1 : 0)
  const unknown: StepState = { ...step, outcome: 'unknown', attempts }
  const failure = lostCall(settings, attempts)
  if (canInquire && mayInquire(settings, attempts) && !instanceHasEnded(t.status)) inquire(t, unknown)
  else if (step.status === 'RUNNING' && t.status === 'RUNNING' && failure.kind === 'TRANSIENT') begin(t, unknown)
  else callFailed(t, { ...unknown, attempts: step.attempts }, failure)
}

/** One inquiry more than there are calls: an inquiry that ends its worker must not be repeated for ever. */
export const mayInquire = ({ nonIdempotent, maxAttempts }: CallSettings, attempts: number): boolean =>
  nonIdempotent && attempts <= maxAttempts

/** The claim counts as a call: it becomes one if `inquire` returns that nothing was done. */
function inquire(t: Transition, step: StepState): void {
  const { maxAttempts } = t.call(step.name, 'step')
  const another = step.status === 'RUNNING' && t.status === 'RUNNING' && shouldRetry(step.attempts, maxAttempts)
  const attempts = step.attempts + 1
  t.change(step, { attempts })
  t.callHandler({ step: step.name, kind: 'step', attempt: attempts, inquire: another ? 'first' : 'only' })
}

export function stepCompleted(t: Transition, step: StepState, output: Payload): void {
  if (!step.inFlight) return
  t.dequeue(step.name, 'step')
  if (step.status === 'RUNNING' && (t.status === 'RUNNING' || t.status === 'DLQ')) {
    proceed(t, complete(t, step, output))
    return
  }
  // The instance fails, was stopped, or another branch has won: the call was made, and may need compensation.
  const ended = { order: t.nextOrder(), inFlight: false, failure: null }
  const done = t.change(step, { status: 'COMPLETED', output, outcome: 'completed', ...ended })
  t.write(stepEvent('step_completed', done, { attempts: done.attempts }))
  continueRollback(t)
}

export function stepFailed(
  t: Transition,
  step: StepState,
  { failure, known }: { readonly failure: Failure; readonly known?: KnownOfCall },
): void {
  if (!step.inFlight) return
  const outcome = outcomeAfter(step.outcome, failure, known)
  // A call that never began and will not be made uses no attempt; one that may be repeated is counted, so that this ends.
  const attempts = known === 'notBegun' && failure.kind !== 'TRANSIENT' ? step.attempts - 1 : step.attempts
  callFailed(t, { ...step, outcome, attempts }, failure)
}

/** The call is over, without success; what is known of it is in the step. */
function callFailed(t: Transition, step: StepState, failure: Failure): void {
  t.dequeue(step.name, 'step')
  if (step.status === 'SKIPPED') endSkipped(t, step, failure)
  else if (t.status === 'ROLLING_BACK') failQuietly(t, step, failure)
  else if (mayBeTriedAgain(t, step, failure)) retry(t, step, failure)
  else giveUp(t, step, failureForGood(t, step, failure))
}

function mayBeTriedAgain(t: Transition, step: StepState, failure: Failure): boolean {
  const { maxAttempts, nonIdempotent } = t.call(step.name, 'step')
  if (nonIdempotent && step.outcome === 'unknown') return false
  return failure.kind === 'TRANSIENT' && shouldRetry(step.attempts, maxAttempts)
}

/** The unknown outcome matters more than the error that was thrown. */
function failureForGood(t: Transition, step: StepState, failure: Failure): Failure {
  const unknown = t.call(step.name, 'step').nonIdempotent && step.outcome === 'unknown'
  return unknown ? asUnknown(failure) : failure
}

export function asUnknown(failure: Failure): Failure {
  return failure.code === 'OUTCOME_UNKNOWN'
    ? failure
    : unknownOutcome(`the call failed with ${failure.code} (${failure.message})`)
}

function retry(t: Transition, step: StepState, failure: Failure): void {
  const policy = t.call(step.name, 'step').retry
  const waiting = tryLater(t, step, { failure }, retryDelay(policy, step.attempts, t.surroundings.random))
  t.write(stepEvent('step_retry', waiting, { failure, attempts: waiting.attempts }))
}

/** In a frozen instance it waits until the instance is unfrozen. */
function tryLater(t: Transition, step: StepState, change: Partial<StepState>, delayMs: number): StepState {
  const frozen = t.status === 'DLQ'
  if (!frozen) t.enqueue(step.name, 'step', delayMs)
  return t.change(step, { ...change, status: frozen ? 'PAUSED' : 'PENDING', inFlight: false })
}

/** It was skipped, and its call has ended: it stays skipped, and is compensated with the others if it may have had an effect. */
function endSkipped(t: Transition, step: StepState, failure: Failure): void {
  const over = { ...step, inFlight: false }
  const ended = t.change(over, step.outcome === null ? {} : { failure, ...endOfCalls(t, over) })
  if (step.outcome !== null) t.write(stepEvent('step_failed', ended, { failure, attempts: ended.attempts }))
  continueRollback(t)
}

/** It failed while nothing is retried any more; it is undone too if it may have had an effect. */
function failQuietly(t: Transition, step: StepState, failure: Failure): void {
  if (step.outcome === null) {
    t.write(stepEvent('step_skipped', t.change(step, { status: 'SKIPPED', inFlight: false })))
  } else {
    const failed = t.change(step, { status: 'FAILED', order: t.nextOrder(), inFlight: false, failure })
    t.write(stepEvent('step_failed', failed, { failure, attempts: failed.attempts }))
  }
  continueRollback(t)
}

/** Claimed, and never called. */
export function stepReleased(t: Transition, step: StepState, delayMs: number): void {
  if (!step.inFlight) return
  const attempts = Math.max(0, step.attempts - 1)
  t.dequeue(step.name, 'step')
  if (step.status === 'RUNNING' && t.status !== 'ROLLING_BACK') tryLater(t, step, { attempts }, delayMs)
  else {
    const over = { ...step, attempts, inFlight: false }
    t.change(over, { status: 'SKIPPED', ...endOfCalls(t, over) })
    continueRollback(t)
  }
}

/** The worker was stopped in order during the call: the step begins again elsewhere, and this call does not count. */
export function stepInterrupted(t: Transition, step: StepState): void {
  if (!step.inFlight) return
  const unknown: StepState = { ...step, outcome: 'unknown' }
  if (step.status !== 'RUNNING' || t.status === 'ROLLING_BACK') {
    callFailed(t, unknown, interruptedCall())
    return
  }
  t.dequeue(step.name, 'step')
  const waiting = tryLater(t, unknown, { attempts: Math.max(0, step.attempts - 1) }, 0)
  t.write(stepEvent('step_released', waiting, { attempts: waiting.attempts, detail: { called: true } }))
}
