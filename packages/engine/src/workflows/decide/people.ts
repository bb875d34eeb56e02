// What people do to an instance: decide, cancel, abort, and retry or settle a dead letter. `decide.ts` calls it. Pure. What does not fit
// the status is refused with `HF_WRONG_STATUS` and must change nothing.

import { HoldfastError } from '../../kernel/errors.js'
import { classifyFailure, type Failure } from '../../kernel/failure/classify.js'
import { BusinessError } from '../../kernel/failure/failure-errors.js'
import { workOf, wrongStatus } from '../../kernel/model/index.js'
import { invalidOption } from '../../kernel/validation/invalid-option.js'
import { instanceHasEnded, stepVerbStatuses, verbStatuses } from '../states.js'
import { arriveAgain, complete, proceed } from './advance.js'
import { isRefusedInput } from './fail.js'
import type { Answer, By, HumanChoice, InstanceEvent } from './instance-event.js'
import { continueRollback, startUndoing } from './rollback.js'
import { skipActive } from './skip.js'
import type { Payload, StepState } from './state.js'
import { stepEvent, type Transition } from './transition.js'

/** Operations of people on an instance. An operation that its status does not allow is refused and changes nothing. */

export function decideHuman(t: Transition, name: string, decision: HumanChoice, by: By): void {
  t.plan.step(name)
  const step = t.step(name)
  if (step?.status !== 'WAITING_DECISION') throw wrongStep(t, name, step, 'decide')
  t.addHumanDecision({ step: name, decision, ...by })
  if (decision === 'confirm') {
    t.write(stepEvent('decision_made', { ...step, status: 'CONFIRMED' }, { ...by, detail: { decision } }))
    proceed(t, complete(t, step, step.input))
  } else {
    const rejected = t.change(step, { status: 'REJECTED', order: t.nextOrder() })
    t.write(stepEvent('decision_made', rejected, { ...by, detail: { decision } }))
    t.setInstance({ failure: { step: name, failure: rejectedBy(by) } })
    stopEverything(t, by)
  }
}

/** The record of the instance and the error of `result()` say who rejected it, and why. */
const rejectedBy = ({ actor, reason }: By): Failure =>
  classifyFailure(new BusinessError(`${actor} rejected it: ${reason}`, { code: 'REJECTED' }), { unknown: 'permanent' })

/** Undoes what was done, and ends `CANCELLED`. A second call changes nothing. */
export function cancel(t: Transition, by: By): void {
  if (t.status === 'CANCELLING' || t.status === 'CANCELLED') return
  if (instanceHasEnded(t.status)) throw wrongInstance(t)
  t.setInstance({ status: 'CANCELLING' })
  t.write({ type: 'cancellation_started', status: 'CANCELLING', ...by })
  skipActive(t, () => true)
  continueRollback(t)
}

/** Stops without undoing anything. A second call changes nothing. */
export function abort(t: Transition, by: By): void {
  if (t.status === 'ABORTED') return
  if (instanceHasEnded(t.status)) throw wrongInstance(t)
  t.write({ type: 'abort_started', status: t.status, ...by })
  stopEverything(t, by)
}

function stopEverything(t: Transition, by: By): void {
  t.setInstance({ status: 'ABORTED' })
  skipActive(t, () => true)
  for (const step of t.steps()) if (step.status === 'COMPENSATING') leaveAsItWas(t, step)
  t.write({ type: 'workflow_aborted', status: 'ABORTED', ...by })
}

function leaveAsItWas(t: Transition, step: StepState): void {
  if (step.inFlight) t.signalAbort(step.name)
  else t.dequeue(step.name, 'compensation')
  const done = t.plan.step(step.name).type === 'human' ? 'CONFIRMED' : 'COMPLETED'
  t.change(step, { status: step.outcome === 'completed' ? done : 'FAILED' })
}

type Requeue = Extract<InstanceEvent, { type: 'requeued' }>

/** Retries the dead letter of a step or of its compensation, or records what a person found out about it. */
export function requeue(t: Transition, { step: name, input, answer, by }: Requeue): void {
  const { type } = t.plan.step(name)
  const step = t.step(name)
  if (!step?.dlq) throw wrongStep(t, name, step, typeof answer === 'object' ? 'complete' : 'retry')
  const isStep = step.status === 'PAUSED'
  if (isRefusedInput(t, step) && input === undefined && typeof answer !== 'object') {
    const problem = 'the input that is stored does not fit the schema of the workflow'
    if (answer === 'skip') throw new HoldfastError('HF_CANNOT_SKIP', { ...instanceOf(t), problem })
    throw invalidOption('workflow.retry', 'input', `must be given: ${problem}`)
  }
  if (answer === 'skip' && isStep && type !== 'task') {
    const problem = `step \`${name}\` is a ${type} and calls nothing`
    throw new HoldfastError('HF_CANNOT_SKIP', { ...instanceOf(t), problem })
  }
  if (answer !== undefined && isStep && type !== 'task') {
    const [where, option] =
      answer === 'notDone' ? (['workflow.retry', 'notDone'] as const) : (['workflow.complete', 'step'] as const)
    const problem = `does not fit step \`${name}\`: it is a ${type} and calls nothing`
    throw invalidOption(where, option, problem)
  }
  t.removeDeadLetter(name)
  const renewed = { ...step, input: input ?? step.input, dlq: false }
  if (isStep) requeueStep(t, renewed, answer, by)
  else requeueCompensation(t, renewed, answer, by)
}

const answerDetail = (answer: Answer | undefined) =>
  answer === undefined ? {} : { answer: typeof answer === 'string' ? answer : 'done' }

/** The output of the step. */
const outputBy = (answer: Answer | undefined, { input }: StepState): Payload | undefined =>
  answer === 'skip' ? input : typeof answer === 'object' ? answer.done : undefined

/** The outcome of its calls so far is kept when its counters are reset. */
function requeueStep(t: Transition, step: StepState, answer: Answer | undefined, by: By): void {
  const frozen = t.status === 'DLQ' ? t.steps().filter(({ status, dlq }) => status === 'PAUSED' && !dlq) : []
  t.setInstance({ status: 'RUNNING', failure: null })
  const outcome = answer === 'notDone' ? 'refused' : step.outcome
  const reset = t.change(t.create(step.name, 'PAUSED', step.input), { outcome })
  const resumed = frozen.map(({ name }) => name)
  const detail = { ...answerDetail(answer), ...(resumed.length === 0 ? {} : { resumed }) }
  const output = outputBy(answer, step)
  const status = output ? 'COMPLETED' : 'PENDING'
  t.write(stepEvent('dlq_requeued', { ...step, status }, { ...by, ...(Object.keys(detail).length > 0 && { detail }) }))
  if (output) {
    const next = complete(t, { ...reset, attempts: step.attempts }, output)
    // One that is skipped goes on. What is known of the effect of its calls stays: that decides about its compensation.
    if (answer === 'skip') t.change(t.step(step.name) ?? step, { outcome: step.outcome })
    proceed(t, next)
  }
  for (const name of [step.name, ...resumed]) resume(t, name)
  arriveAgain(t)
}

/** At once, whatever delay its call had; steps without a handler are decided, which may pause the others again. */
function resume(t: Transition, name: string): void {
  const step = t.step(name)
  // One that was resumed before it may have failed again, or have won against it.
  if (t.status !== 'RUNNING' || step?.status !== 'PAUSED') return
  if (t.plan.step(name).type === 'task') {
    t.change(step, { status: 'PENDING' })
    t.enqueue(name, 'step', 0)
  } else proceed(t, [{ step: name, input: step.input }])
}

/** That compensation only: in its turn while others are being undone, at once when the instance has ended. */
function requeueCompensation(t: Transition, step: StepState, answer: Answer | undefined, by: By): void {
  const compensationOutcome = answer === 'notDone' ? 'refused' : step.compensationOutcome
  const waiting = t.change(step, { compensationAttempts: 0, compensationOutcome })
  const detail = answer === undefined ? {} : { detail: answerDetail(answer) }
  t.write(stepEvent('dlq_requeued', waiting, { ...by, ...detail }))
  const undone = outputBy(answer, step) !== undefined
  if (undone) {
    t.write(stepEvent('compensation_success', t.change(waiting, { status: 'ROLLED_BACK' }), { ...by, ...detail }))
  }
  if (!instanceHasEnded(t.status)) continueRollback(t)
  else if (!undone) startUndoing(t, waiting)
}

const instanceOf = (t: Transition) => workOf('workflows', t.plan.definition.name, t.id)

const wrongInstance = (t: Transition) => wrongStatus(instanceOf(t), 'cancel', t.status, verbStatuses)

const wrongStep = (t: Transition, name: string, step: StepState | undefined, verb: keyof typeof stepVerbStatuses) =>
  wrongStatus(instanceOf(t), verb, step?.status ?? 'not reached yet', stepVerbStatuses, name)
