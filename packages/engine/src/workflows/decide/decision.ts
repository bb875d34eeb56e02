// What a decision consists of, and the state after it. `transition.ts` makes decisions; `store/` writes them. All parts of one decision
// are written in one transaction, or none.

import type { Json } from '../../kernel/codec/type.js'
import type { Failure } from '../../kernel/failure/classify.js'
import type { StepType } from '../definition/definition.js'
import type { EventType, InstanceStatus, StepStatus } from '../states.js'
import type { By, HumanChoice } from './instance-event.js'
import type { CallKind, InstanceState, Payload, StepState } from './state.js'

/** What changes: everything in it is applied in one transaction, or nothing. */
export interface Decision {
  /** Only for a claim. Without it there is nothing to call. */
  readonly call: Call | null
  readonly instance: Partial<Pick<InstanceState, 'status' | 'output' | 'failure'>>
  /** The new records of the steps that changed, or were reached. */
  readonly steps: readonly StepState[]
  /** One item per step and kind: creates it, or makes it due again. */
  readonly enqueue: readonly QueueItem[]
  readonly remove: readonly QueueRef[]
  /** Steps whose running handlers get their AbortSignal, wherever they run. */
  readonly abort: readonly string[]
  readonly deadLetters: readonly DeadLetter[]
  /** Steps whose dead letter is gone. */
  readonly removedDeadLetters: readonly string[]
  readonly humanDecisions: readonly HumanDecision[]
  readonly events: readonly WorkflowEvent[]
}

/** A call that a claim leads to. */
export interface Call {
  readonly step: string
  readonly kind: CallKind
  /** The number of this call of the handler, from 1. */
  readonly attempt: number
  /**
   * Inquire first about an earlier call that must not be repeated, and call the handler only if that was not
   * done; `only`: no call is left, whatever it returns.
   */
  readonly inquire?: 'first' | 'only'
}

/** The decision that changes nothing. */
export const nothing: Decision = {
  call: null,
  instance: {},
  steps: [],
  enqueue: [],
  remove: [],
  abort: [],
  deadLetters: [],
  removedDeadLetters: [],
  humanDecisions: [],
  events: [],
}

/** Whether there is nothing to write. */
export const changesNothing = ({ steps, enqueue, remove, events, instance }: Decision): boolean =>
  steps.length + enqueue.length + remove.length + events.length + Object.keys(instance).length === 0

export interface QueueRef {
  readonly step: string
  readonly kind: CallKind
}

export interface QueueItem extends QueueRef {
  readonly handler: string
  readonly delayMs: number
  readonly priority: number
}

/** A dead letter; the code that stores it adds instance, workflow and time. */
export interface DeadLetter {
  readonly step: string
  readonly kind: CallKind
  readonly type: StepType
  readonly input: Payload
  readonly failure: Failure
  readonly reason: string
}

export interface HumanDecision extends By {
  readonly step: string
  readonly decision: HumanChoice
}

export interface WorkflowEvent extends Partial<By> {
  readonly type: EventType
  readonly step?: string
  /** The status after it, of the step or, without one, of the instance. */
  readonly status: StepStatus | InstanceStatus
  /** Calls so far of the handler that it is about. */
  readonly attempts?: number
  readonly error?: { readonly code: string; readonly message: string }
  readonly detail?: { readonly [key: string]: Json }
}

/**
 * The state after a decision, for folding several events of one instance in memory before they are written.
 *
 * @example
 * const after = applyDecision(state, decide(Order, state, { type: 'completed', step: 'charge', output }))
 */
export function applyDecision(state: InstanceState, decision: Decision): InstanceState {
  const steps = new Map(state.steps)
  for (const step of decision.steps) steps.set(step.name, step)
  return { ...state, ...decision.instance, steps }
}
