// The entry of all decisions about instances: sends each event to the rule for it, then fires joins and settles the instance. Called for
// workers, operators and starts. Pure: it may be called again with the same event on another state.

import type { WorkflowDefinition } from '../definition/definition.js'
import { fireJoins, proceed } from './advance.js'
import { claimStep, stepCompleted, stepFailed, stepInterrupted, stepReleased } from './calls.js'
import {
  claimCompensation,
  compensationFailed,
  compensationInterrupted,
  compensationReleased,
  stepCompensated,
} from './compensations.js'
import type { Decision } from './decision.js'
import { refuseInput, settle } from './fail.js'
import type { InstanceEvent } from './instance-event.js'
import { plainPayloads } from './payloads.js'
import { abort, cancel, decideHuman, requeue } from './people.js'
import { planOf } from './plan.js'
import type { InstanceState, StepState } from './state.js'
import { type Surroundings, stepEvent, Transition } from './transition.js'

/**
 * Decides what an event changes: the one place where the state machines of states.ts move. Pure: the same state, the
 * same event and the same random numbers give the same decision. What a worker reports too late, because another worker has its
 * item or the step has ended, changes nothing; what a person asks for and cannot have is refused with `HF_WRONG_STATUS`.
 *
 * @example
 * const decision = decide(Order, state, { type: 'completed', step: 'charge', output: codec.encode(result) })
 * await apply(decision)   // one transaction
 */
export function decide(
  definition: WorkflowDefinition,
  state: InstanceState,
  event: InstanceEvent,
  surroundings: Partial<Surroundings> = {},
): Decision {
  const t = new Transition(planOf(definition), state, {
    random: Math.random,
    payloads: plainPayloads,
    ...surroundings,
  })
  applyEvent(t, event)
  fireJoins(t)
  settle(t)
  return t.decision()
}

function applyEvent(t: Transition, event: InstanceEvent): void {
  switch (event.type) {
    case 'started':
      start(t, event)
      break
    case 'decided':
      decideHuman(t, event.step, event.decision, event.by)
      break
    case 'cancel':
      cancel(t, event.by)
      break
    case 'abort':
      abort(t, event.by)
      break
    case 'requeued':
      requeue(t, event)
      break
    default:
      report(t, event)
  }
}

type Report = Extract<
  InstanceEvent,
  {
    type:
      | 'claimed'
      | 'completed'
      | 'failed'
      | 'compensated'
      | 'compensation_failed'
      | 'abandoned'
      | 'interrupted'
      | 'released'
  }
>

/** What a worker reports about the item that it has claimed. */
function report(t: Transition, event: Report): void {
  const step = t.step(event.step)
  if (step === undefined) return
  switch (event.type) {
    case 'claimed':
      if (event.kind === 'step') claimStep(t, step, event)
      else claimCompensation(t, step, event)
      break
    case 'completed':
      stepCompleted(t, step, event.output)
      break
    case 'failed':
      stepFailed(t, step, event)
      break
    case 'compensated':
      stepCompensated(t, step)
      break
    case 'compensation_failed':
      compensationFailed(t, step, event)
      break
    case 'abandoned':
      // It may have ended after all, by a transaction of its own: then there is nothing to take over.
      if (!step.inFlight) break
      if (event.kind === 'step') claimStep(t, step, {})
      else claimCompensation(t, step, {})
      break
    case 'interrupted':
      if (event.kind === 'step') stepInterrupted(t, step)
      else compensationInterrupted(t, step)
      break
    case 'released':
      release(t, step, event)
  }
}

function start(t: Transition, { input = t.input, refused }: Extract<InstanceEvent, { type: 'started' }>): void {
  if (t.status !== 'PENDING') return
  t.setInstance({ status: 'RUNNING' })
  t.write({ type: 'workflow_started', status: 'RUNNING' })
  if (refused) refuseInput(t, refused)
  else proceed(t, [{ step: t.plan.start, input }])
}

const COOLDOWN_MS = 5_000

/** Another worker may have the handler; this one claims the item again only after a delay. */
function release(
  t: Transition,
  step: StepState,
  { kind, because, quiet = false }: Extract<Report, { type: 'released' }>,
): void {
  const missing = because === 'handler_missing'
  const delayMs = missing ? Math.round(COOLDOWN_MS * (0.8 + 0.4 * t.surroundings.random())) : 0
  if (kind === 'step') stepReleased(t, step, delayMs)
  else compensationReleased(t, step, delayMs)
  if (missing && !quiet && step.inFlight)
    t.write(stepEvent('step_skipped_missing_handler', t.step(step.name) ?? step, { detail: { kind } }))
}
