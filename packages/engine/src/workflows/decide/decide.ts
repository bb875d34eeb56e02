import type { WorkflowDefinition } from '../definition/definition.js'
import { fireJoins, proceed } from './advance.js'
import { claimStep, stepCompleted, stepFailed, stepGivenBack, stepInterrupted } from './calls.js'
import {
  claimCompensation,
  compensationFailed,
  compensationGivenBack,
  compensationInterrupted,
  stepCompensated,
} from './compensations.js'
import type { Decision } from './decision.js'
import { settle } from './fail.js'
import type { Occurrence } from './occurrence.js'
import { plainPayloads } from './payloads.js'
import { abort, cancel, decideHuman, requeue } from './people.js'
import { planOf } from './plan.js'
import type { InstanceState, StepState } from './state.js'
import { type Surroundings, stepEvent, Transition } from './transition.js'

/**
 * What an occurrence changes (W-05 to W-11): the one place where the machines of states.ts move. Pure: the same state, the
 * same occurrence and the same chance give the same decision. What a worker reports too late, because somebody else has its
 * item or the step has ended, changes nothing; what a person asks for and cannot have is refused with `HF_WRONG_STATUS`.
 *
 * @example
 * const decision = decide(Order, state, { type: 'completed', step: 'charge', output: codec.encode(result) })
 * await apply(decision)   // one transaction
 */
export function decide(
  definition: WorkflowDefinition,
  state: InstanceState,
  occurrence: Occurrence,
  surroundings: Partial<Surroundings> = {},
): Decision {
  const t = new Transition(planOf(definition), state, {
    random: Math.random,
    payloads: plainPayloads,
    ...surroundings,
  })
  happen(t, occurrence)
  fireJoins(t)
  settle(t)
  return t.decision()
}

function happen(t: Transition, occurrence: Occurrence): void {
  switch (occurrence.type) {
    case 'started':
      start(t)
      break
    case 'decided':
      decideHuman(t, occurrence.step, occurrence.decision, occurrence.by)
      break
    case 'cancel':
      cancel(t, occurrence.by)
      break
    case 'abort':
      abort(t, occurrence.by)
      break
    case 'requeued':
      requeue(t, occurrence)
      break
    default:
      report(t, occurrence)
  }
}

type Report = Extract<
  Occurrence,
  {
    type:
      | 'claimed'
      | 'completed'
      | 'failed'
      | 'compensated'
      | 'compensation_failed'
      | 'abandoned'
      | 'interrupted'
      | 'given_back'
  }
>

/** What a worker says of the item it has. */
function report(t: Transition, occurrence: Report): void {
  const step = t.step(occurrence.step)
  if (step === undefined) return
  switch (occurrence.type) {
    case 'claimed':
      if (occurrence.kind === 'step') claimStep(t, step, occurrence)
      else claimCompensation(t, step, occurrence)
      break
    case 'completed':
      stepCompleted(t, step, occurrence.output)
      break
    case 'failed':
      stepFailed(t, step, occurrence)
      break
    case 'compensated':
      stepCompensated(t, step)
      break
    case 'compensation_failed':
      compensationFailed(t, step, occurrence)
      break
    case 'abandoned':
      // It may have ended after all, by a transaction of its own: then there is nothing to take over.
      if (!step.inFlight) break
      if (occurrence.kind === 'step') claimStep(t, step, {})
      else claimCompensation(t, step, {})
      break
    case 'interrupted':
      if (occurrence.kind === 'step') stepInterrupted(t, step)
      else compensationInterrupted(t, step)
      break
    case 'given_back':
      giveBack(t, step, occurrence)
  }
}

function start(t: Transition): void {
  if (t.status !== 'PENDING') return
  t.setInstance({ status: 'RUNNING' })
  t.write({ type: 'workflow_started', status: 'RUNNING' })
  proceed(t, [{ step: t.plan.start, input: t.input }])
}

const COOLDOWN_MS = 5_000

/** W-04: another worker may have the handler, and this one not soon. */
function giveBack(
  t: Transition,
  step: StepState,
  { kind, because, quiet = false }: Extract<Report, { type: 'given_back' }>,
): void {
  const missing = because === 'handler_missing'
  const delayMs = missing ? Math.round(COOLDOWN_MS * (0.8 + 0.4 * t.surroundings.random())) : 0
  if (kind === 'step') stepGivenBack(t, step, delayMs)
  else compensationGivenBack(t, step, delayMs)
  if (missing && !quiet && step.inFlight)
    t.write(stepEvent('step_skipped_missing_handler', t.step(step.name) ?? step, { detail: { kind } }))
}
