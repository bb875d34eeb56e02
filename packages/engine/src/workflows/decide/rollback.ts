// The order in which steps are undone: the failed step first, then the last to end, one after the other, back to the last save point.
// Pure. Every call that may have had an effect must be undone, and none twice at the same time.

import type { Failure } from '../../kernel/failure/classify.js'
import { type CompensateIf, mustCompensate } from '../../kernel/model/index.js'
import { compensationOf } from '../definition/definition.js'
import { skipActive } from './skip.js'
import { isDone, type StepState } from './state.js'
import { stepEvent, type Transition } from './transition.js'

/**
 * The instance has failed. Running handlers are aborted and awaited; what they have done is compensated too,
 * before what ended earlier.
 */
export function startRollback(t: Transition, step: StepState, failure: Failure): void {
  t.setInstance({ status: 'ROLLING_BACK', failure: { step: step.name, failure } })
  skipActive(t, ({ inFlight }) => !inFlight)
  for (const { name, status, inFlight } of t.steps()) if (inFlight && status === 'RUNNING') t.signalAbort(name)
  continueRollback(t)
}

/** Begins the next compensation if none is under way, or ends the instance when there is none left. */
export function continueRollback(t: Transition): void {
  if (t.status !== 'ROLLING_BACK' && t.status !== 'CANCELLING') return
  const inScope = scopeOf(t)
  for (;;) {
    const steps = t.steps().filter(({ name }) => inScope(name))
    if (steps.some(({ status }) => status === 'COMPENSATING')) return
    const next = nextToUndo(t, steps)
    if (next === undefined) end(t)
    if (next === undefined || next === 'wait' || startUndoing(t, next)) return
  }
}

/**
 * Everything, or only what lies after the last save point that was reached. By the graph, not by time: of a fork before the
 * save point, a branch that lost may end after it.
 */
function scopeOf(t: Transition): (name: string) => boolean {
  let last: StepState | undefined
  for (const step of t.steps()) {
    if (t.plan.step(step.name).type !== 'save_point' || !isDone(step)) continue
    if (last === undefined || (step.order ?? 0) > (last.order ?? 0)) last = step
  }
  if (last === undefined) return () => true
  const after = t.plan.after(last.name)
  return (name) => after.has(name)
}

/** When nothing runs any more: the step that failed first, then strictly the last to have ended. */
function nextToUndo(t: Transition, steps: readonly StepState[]): StepState | 'wait' | undefined {
  if (steps.some(({ inFlight }) => inFlight)) return 'wait'
  const open = steps.filter((step) => isToBeUndone(t, step))
  const failing = open.find(({ name }) => name === t.failure?.step)
  return failing ?? open.toSorted((a, b) => (b.order ?? 0) - (a.order ?? 0))[0]
}

/**
 * Every call that may have had an effect is undone, whatever status it ended in; what was never called is not. The step
 * that made the instance fail is undone even if it was refused, unless its `compensateIf` says otherwise: a handler
 * that throws a business error at its second effect has had its first.
 */
function isToBeUndone(t: Transition, step: StepState): boolean {
  if (isDone(step)) return true
  if (step.dlq || (step.status !== 'FAILED' && step.status !== 'SKIPPED')) return false
  const compensation = compensationOf(t.plan.step(step.name))
  if (compensation === undefined) return step.status === 'FAILED' || step.outcome === 'unknown'
  const byDefault = step.name === t.failure?.step ? 'attempted' : 'possible'
  return step.outcome !== null && mustCompensate(step.outcome, compensation.compensateIf ?? byDefault)
}

/** An operator skipped it after its calls were refused: it counts as done, and has no effect. */
const wasSkippedUndone = (step: StepState, compensateIf: CompensateIf = 'possible'): boolean =>
  isDone(step) && step.outcome === 'refused' && !mustCompensate(step.outcome, compensateIf)

/** Returns whether there is a compensation to wait for. */
export function startUndoing(t: Transition, step: StepState): boolean {
  const compensation = compensationOf(t.plan.step(step.name))
  if (compensation === undefined || wasSkippedUndone(step, compensation.compensateIf)) {
    const undone = t.change(step, { status: 'ROLLED_BACK' })
    t.write(stepEvent('compensation_success', undone, { detail: { compensation: null } }))
    return false
  }
  const undoing = t.change(step, { status: 'COMPENSATING', compensationAttempts: 0 })
  t.enqueue(step.name, 'compensation', compensation.delay)
  t.write(stepEvent('compensation_started', undoing, { detail: { compensation: compensation.name } }))
  return true
}

function end(t: Transition): void {
  const stuck = t.steps().find(({ status, dlq }) => status === 'FAILED' && dlq)
  if (t.status === 'CANCELLING' && stuck === undefined) {
    t.setInstance({ status: 'CANCELLED' })
    t.write({ type: 'workflow_cancelled', status: 'CANCELLED' })
    return
  }
  const failure = t.failure ?? (stuck?.failure == null ? null : { step: stuck.name, failure: stuck.failure })
  t.setInstance({ status: 'FAILED', failure })
  const error = failure === null ? {} : { error: { code: failure.failure.code, message: failure.failure.message } }
  t.write({ type: 'workflow_failed', status: 'FAILED', ...error })
}
