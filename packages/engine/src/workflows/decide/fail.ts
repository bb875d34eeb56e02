// What a step that failed for good means for the instance: the dead letter queue, the rollback, or nothing while another branch can
// still win. Pure. An instance must end or wait for a person, never both.

import { classifyFailure, type Failure } from '../../kernel/failure/classify.js'
import { BusinessError } from '../../kernel/failure/failure-errors.js'
import { blockHasFailed } from './blocks.js'
import type { Block, Place } from './plan.js'
import { startRollback } from './rollback.js'
import { skipActive } from './skip.js'
import type { StepState } from './state.js'
import { stepEvent, type Transition } from './transition.js'

/** A step has failed for good: the DLQ, the rollback, or nothing more if an `any` join above it has other branches left. */
export function giveUp(t: Transition, step: StepState, failure: Failure): void {
  const ended = { failure, order: t.nextOrder(), inFlight: false }
  if (t.plan.definition.dlq) {
    toDeadLetter(t, t.change(step, { ...ended, status: 'PAUSED', dlq: true }), failure)
  } else {
    const failed = t.change(step, { ...ended, status: 'FAILED' })
    t.write(stepEvent('step_failed', failed, { failure, attempts: failed.attempts }))
    passUp(t, failed, failure)
  }
}

function toDeadLetter(t: Transition, step: StepState, failure: Failure): void {
  t.addDeadLetter(step, 'step', failure, 'the step failed for good; in DLQ mode nothing is undone')
  t.write(stepEvent('step_failed', step, { failure, attempts: step.attempts }))
  const borne = endure(t, step.name).place !== undefined
  const frozen = t.status === 'RUNNING' && !borne ? freeze(t, step, failure) : []
  t.write(stepEvent('dlq_created', step, { failure, ...(frozen.length === 0 ? {} : { detail: { frozen } }) }))
}

/** Nothing new begins until an operator retries something; running calls may finish, and are recorded. */
function freeze(t: Transition, step: StepState, failure: Failure): string[] {
  t.setInstance({ status: 'DLQ', failure: { step: step.name, failure } })
  const queued = t.steps().filter(({ name, status }) => status === 'PENDING' && t.plan.step(name).type === 'task')
  for (const waiting of queued) {
    t.change(waiting, { status: 'PAUSED' })
    t.dequeue(waiting.name, 'step')
  }
  return queued.map(({ name }) => name)
}

/** The input does not fit the workflow: a person gives another, or cancels. In either mode, since there is nothing to undo. */
export function refuseInput(t: Transition, failure: Failure): void {
  const first = t.create(t.plan.start, 'PAUSED', t.input)
  const step = t.change(first, { failure, order: t.nextOrder(), dlq: true })
  t.setInstance({ status: 'DLQ', failure: { step: step.name, failure } })
  t.addDeadLetter(step, 'step', failure, 'the input does not fit the schema of the workflow; nothing was called')
  t.write(stepEvent('dlq_created', step, { failure }))
}

/** Whether `refuseInput` has stopped it: a step that was called and failed with this code has attempts. */
export const isRefusedInput = (t: Transition, { name, attempts, failure }: StepState): boolean =>
  name === t.plan.start && attempts === 0 && failure?.code === 'HF_INVALID_DATA'

/** Ends the branch as failed, with the joins above it; if none of them has another branch left, the instance fails. */
function passUp(t: Transition, step: StepState, failure: Failure): void {
  const { failed, place } = endure(t, step.name)
  for (const block of failed) if (block.strategy === 'any') failJoin(t, block.closer)
  if (place === undefined) startRollback(t, step, failure)
  else {
    // The others may still win; what is left of this branch leads nowhere.
    skipActive(t, ({ name }) => t.plan.isInside(name, place))
    const block = t.plan.blockOf(place.fork)
    if (block !== undefined) t.noteFailedBranch(block.closer)
  }
}

/** Up through the forks around a step: those that fail with it, and the branch of the first fork that tolerates the failure. */
function endure(t: Transition, name: string): { readonly failed: readonly Block[]; readonly place: Place | undefined } {
  const failed: Block[] = []
  for (let place = t.plan.placeOf(name); place !== undefined; place = t.plan.placeOf(place.fork)) {
    const block = t.plan.blockOf(place.fork)
    if (block === undefined) continue
    if (!blockHasFailed(t, block)) return { failed, place }
    failed.push(block)
  }
  return { failed, place: undefined }
}

function failJoin(t: Transition, name: string): void {
  const join = t.step(name)
  if (join === undefined) return
  const failure = classifyFailure(
    new BusinessError('every branch of the fork failed', { code: 'ALL_BRANCHES_FAILED' }),
    { unknown: 'permanent' },
  )
  const failed = t.change(join, { status: 'FAILED', order: t.nextOrder(), failure })
  t.write(stepEvent('step_failed', failed, { failure }))
}

/** In DLQ mode: where nothing is left to do but what waits for a person, the instance says so. */
export function settle(t: Transition): void {
  if (t.status !== 'RUNNING' || !t.plan.definition.dlq) return
  const steps = t.steps()
  const dead = steps.find(({ dlq }) => dlq)
  if (dead?.failure == null || steps.some((step) => isUnderWay(t, step))) return
  t.setInstance({ status: 'DLQ', failure: { step: dead.name, failure: dead.failure } })
}

function isUnderWay(t: Transition, { name, status, inFlight }: StepState): boolean {
  if (status === 'WAITING_DECISION' || (inFlight && status === 'RUNNING')) return true
  return status === 'PENDING' && t.plan.step(name).type === 'task'
}
