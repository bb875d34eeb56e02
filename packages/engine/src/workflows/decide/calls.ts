import { classifyFailure, type Failure } from '../../kernel/failure/classify.js'
import { PermanentError, TransientError } from '../../kernel/failure/failure-errors.js'
import { retryDelay, shouldRetry } from '../../kernel/retry/retry-policy.js'
import type { CallSettings } from '../definition/definition.js'
import { instanceHasEnded } from '../states.js'
import { complete, proceed } from './advance.js'
import { giveUp } from './fail.js'
import { continueRollback } from './rollback.js'
import type { Payload, StepState } from './state.js'
import { stepEvent, type Transition } from './transition.js'

/** What became of the handlers of steps. The compensations' side is in compensations.ts. */

export function claimStep(t: Transition, step: StepState, uncounted = false): void {
  if (step.inFlight) claimLost(t, step, uncounted)
  else if (step.status === 'PENDING' && t.status === 'RUNNING') begin(t, step)
  else t.dequeue(step.name, 'step')
}

function begin(t: Transition, step: StepState, attempts = step.attempts + 1): void {
  const running = t.change(step, { status: 'RUNNING', attempts, inFlight: true })
  t.callHandler(step.name, 'step', attempts)
  t.write(stepEvent('step_started', running, { attempts }))
}

/** The worker that had it has died, was cut off or stopped: what its call did is unknown. */
function claimLost(t: Transition, step: StepState, uncounted: boolean): void {
  const counted = step.attempts - (uncounted ? 1 : 0)
  const failure = lostCall(t.call(step.name, 'step'), counted)
  if (step.status === 'RUNNING' && t.status === 'RUNNING' && failure.kind === 'TRANSIENT') begin(t, step, counted + 1)
  else if (step.status === 'RUNNING') stepFailed(t, step, failure)
  else {
    t.dequeue(step.name, 'step')
    if (instanceHasEnded(t.status)) t.change(step, { inFlight: false })
    else failQuietly(t, step, failure)
  }
}

export function lostCall({ maxAttempts, nonIdempotent }: CallSettings, attempts: number): Failure {
  return classifyFailure(lossOf(nonIdempotent, shouldRetry(attempts, maxAttempts)), { unknown: 'permanent' })
}

function lossOf(nonIdempotent: boolean, another: boolean): Error {
  const what = 'the worker died during the call'
  if (nonIdempotent) return new PermanentError(`${what}, so its outcome is unknown`, { code: 'OUTCOME_UNKNOWN' })
  if (another) return new TransientError(what, { code: 'CALL_LOST' })
  return new PermanentError(`${what}, and it was the last`, { code: 'ATTEMPTS_EXHAUSTED_BY_CRASH' })
}

export function stepCompleted(t: Transition, step: StepState, output: Payload): void {
  if (!step.inFlight) return
  t.dequeue(step.name, 'step')
  if (step.status === 'RUNNING' && (t.status === 'RUNNING' || t.status === 'DLQ')) {
    proceed(t, complete(t, step, output))
    return
  }
  // The instance fails, was stopped, or another branch has won: it happened all the same, and may have to be undone.
  const done = t.change(step, { status: 'COMPLETED', output, order: t.nextOrder(), inFlight: false, failure: null })
  t.write(stepEvent('step_completed', done, { attempts: done.attempts }))
  continueRollback(t)
}

export function stepFailed(t: Transition, step: StepState, failure: Failure): void {
  if (!step.inFlight) return
  t.dequeue(step.name, 'step')
  if (step.status === 'SKIPPED') {
    t.change(step, { inFlight: false, failure })
    continueRollback(t)
  } else if (t.status === 'ROLLING_BACK') failQuietly(t, step, failure)
  else if (mayBeTriedAgain(t, step, failure)) retry(t, step, failure)
  else giveUp(t, step, failure)
}

function mayBeTriedAgain(t: Transition, step: StepState, failure: Failure): boolean {
  return failure.kind === 'TRANSIENT' && shouldRetry(step.attempts, t.call(step.name, 'step').maxAttempts)
}

function retry(t: Transition, step: StepState, failure: Failure): void {
  const policy = t.call(step.name, 'step').retry
  const waiting = tryLater(t, step, { failure }, retryDelay(policy, step.attempts, t.surroundings.random))
  t.write(stepEvent('step_retry', waiting, { failure, attempts: waiting.attempts }))
}

/** In an instance that is frozen it waits for the thaw. */
function tryLater(t: Transition, step: StepState, change: Partial<StepState>, delayMs: number): StepState {
  const frozen = t.status === 'DLQ'
  if (!frozen) t.enqueue(step.name, 'step', delayMs)
  return t.change(step, { ...change, status: frozen ? 'PAUSED' : 'PENDING', inFlight: false })
}

/** It failed while nothing is tried any more: its own compensation has a turn too when the instance is undone. */
function failQuietly(t: Transition, step: StepState, failure: Failure): void {
  const failed = t.change(step, { status: 'FAILED', order: t.nextOrder(), inFlight: false, failure })
  t.write(stepEvent('step_failed', failed, { failure, attempts: failed.attempts }))
  continueRollback(t)
}

/** Claimed, and never called. */
export function stepGivenBack(t: Transition, step: StepState, delayMs: number): void {
  if (!step.inFlight) return
  const attempts = Math.max(0, step.attempts - 1)
  t.dequeue(step.name, 'step')
  if (step.status === 'RUNNING' && t.status !== 'ROLLING_BACK') tryLater(t, step, { attempts }, delayMs)
  else {
    t.change(step, { status: 'SKIPPED', attempts, inFlight: false })
    continueRollback(t)
  }
}
