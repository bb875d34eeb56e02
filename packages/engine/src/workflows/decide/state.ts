import type { Encoded } from '../../kernel/codec/codec.js'
import type { Failure } from '../../kernel/failure/classify.js'
import type { CallOutcome } from '../../kernel/model/index.js'
import type { InstanceStatus, StepStatus } from '../states.js'

/** An input or output. Its JSON stays text: decisions pass it on as it is, and conditions lose no digit of it. */
export type Payload = Encoded

/** What a decision needs to know of an instance. */
export interface InstanceState {
  readonly id: string
  readonly status: InstanceStatus
  readonly input: Payload
  readonly output: Payload | null
  /** The step that made the instance fail, or sent it to the DLQ. */
  readonly failure: { readonly step: string; readonly failure: Failure } | null
  /** The steps that have been reached, by name. */
  readonly steps: ReadonlyMap<string, StepState>
}

export interface StepState {
  readonly name: string
  readonly status: StepStatus
  readonly input: Payload
  readonly output: Payload | null
  /** Calls that have begun; counted before each. */
  readonly attempts: number
  readonly compensationAttempts: number
  /**
   * What is known of the effect of all calls so far; null while none has begun. Once it is unknown, a later call that
   * was refused does not change that: the earlier call may have had its effect.
   */
  readonly outcome: CallOutcome | null
  /** The same for the calls of its compensation, while it has not succeeded. */
  readonly compensationOutcome: Exclude<CallOutcome, 'completed'> | null
  /** The position of the step in the order in which the steps ended, completed or failed. A rollback goes backwards. */
  readonly order: number | null
  /** Whether a worker has claimed the step, or its compensation. A step may be skipped while a worker still has it. */
  readonly inFlight: boolean
  /** The side that a condition took. */
  readonly side: 'next' | 'else' | null
  readonly failure: Failure | null
  /** Whether a dead letter of the step (`PAUSED`) or of its compensation (`FAILED`) waits for a person. */
  readonly dlq: boolean
}

/** What is called: the handler of a step, or of its compensation. */
export type CallKind = 'step' | 'compensation'

export const emptyStep = (name: string, status: StepStatus, input: Payload): StepState => ({
  name,
  status,
  input,
  output: null,
  attempts: 0,
  compensationAttempts: 0,
  outcome: null,
  compensationOutcome: null,
  order: null,
  inFlight: false,
  side: null,
  failure: null,
  dlq: false,
})

/** It has ended well, and what follows it has begun. */
export const isDone = (step: StepState): boolean => step.status === 'COMPLETED' || step.status === 'CONFIRMED'

/** It has failed for good. */
export const hasFailed = (step: StepState): boolean =>
  step.status === 'FAILED' || (step.status === 'PAUSED' && step.dlq)

/** It has not ended: it is queued, called, or waits for something. */
export const isActive = (step: StepState): boolean => active.has(step.status)

const active: ReadonlySet<StepStatus> = new Set<StepStatus>(['PENDING', 'RUNNING', 'PAUSED', 'WAITING_DECISION'])
