// Collects what one event changes in one instance, and shows the rules of this folder the state as changed so far.
// `decide.ts` creates one per event and turns it into a `Decision`. It holds no rules itself. Every change of a step or
// of the instance goes through it, so that the decision has all of them.

import type { Failure } from '../../kernel/failure/classify.js'
import { type CallSettings, compensationOf } from '../definition/definition.js'
import type { StepStatus } from '../states.js'
import type { Call, DeadLetter, Decision, HumanDecision, QueueItem, QueueRef, WorkflowEvent } from './decision.js'
import type { Payloads } from './payloads.js'
import type { Plan } from './plan.js'
import { type CallKind, emptyStep, type InstanceState, type Payload, type StepState } from './state.js'

export interface Surroundings {
  readonly random: () => number
  readonly payloads: Payloads
}

type Writable<T> = { -readonly [Key in keyof T]: T[Key] }

/** A decision that is being made: the state before, the changes so far, and the state that results. */
export class Transition {
  readonly plan: Plan
  readonly surroundings: Surroundings
  readonly #before: InstanceState
  readonly #instance: Writable<Decision['instance']> = {}
  readonly #steps = new Map<string, StepState>()
  readonly #queue = new Map<string, QueueItem | QueueRef>()
  readonly #deadLetters = new Map<string, DeadLetter | undefined>()
  readonly #abort = new Set<string>()
  readonly #joinsToCheck = new Set<string>()
  readonly #events: WorkflowEvent[] = []
  readonly #humanDecisions: HumanDecision[] = []
  #call: Decision['call'] = null
  #order: number | undefined

  constructor(plan: Plan, before: InstanceState, surroundings: Surroundings) {
    this.plan = plan
    this.#before = before
    this.surroundings = surroundings
  }

  get id(): string {
    return this.#before.id
  }

  get input(): Payload {
    return this.#before.input
  }

  get status(): InstanceState['status'] {
    return this.#instance.status ?? this.#before.status
  }

  get failure(): InstanceState['failure'] {
    return this.#instance.failure === undefined ? this.#before.failure : this.#instance.failure
  }

  step(name: string): StepState | undefined {
    return this.#steps.get(name) ?? this.#before.steps.get(name)
  }

  steps(): StepState[] {
    const names = new Set([...this.#before.steps.keys(), ...this.#steps.keys()])
    return [...names].flatMap((name) => this.step(name) ?? [])
  }

  setInstance(change: Decision['instance']): void {
    Object.assign(this.#instance, change)
  }

  /** A step is reached. */
  create(name: string, status: StepStatus, input: Payload): StepState {
    return this.#set(emptyStep(name, status, input))
  }

  change(step: StepState, change: Partial<StepState>): StepState {
    return this.#set({ ...step, ...change })
  }

  #set(step: StepState): StepState {
    this.#steps.set(step.name, step)
    return step
  }

  /** The number of the next step to end. */
  nextOrder(): number {
    this.#order = 1 + (this.#order ?? lastOrder(this.#before.steps.values()))
    return this.#order
  }

  enqueue(step: string, kind: CallKind, delayMs: number): void {
    const { handler, priority } = this.call(step, kind)
    this.#queue.set(`${kind} ${step}`, { step, kind, handler, delayMs, priority })
  }

  dequeue(step: string, kind: CallKind): void {
    this.#queue.set(`${kind} ${step}`, { step, kind })
  }

  /** How the handler of a step, or of its compensation, is called. Only steps that have one are ever queued. */
  call(name: string, kind: CallKind): CallSettings {
    const step = this.plan.step(name)
    const call = kind === 'compensation' ? compensationOf(step) : step.type === 'task' ? step : undefined
    if (call === undefined) throw new TypeError(`step ${name} has no ${kind} to call`)
    return call
  }

  callHandler(call: Call): void {
    this.#call = call
  }

  /** A branch has failed and its fork tolerates it: the join may have waited only for that branch. */
  noteFailedBranch(closer: string): void {
    this.#joinsToCheck.add(closer)
  }

  takeJoinsToCheck(): readonly string[] {
    const joins = [...this.#joinsToCheck]
    this.#joinsToCheck.clear()
    return joins
  }

  signalAbort(step: string): void {
    this.#abort.add(step)
  }

  addDeadLetter(step: StepState, kind: CallKind, failure: Failure, reason: string): void {
    const { type } = this.plan.step(step.name)
    this.#deadLetters.set(step.name, { step: step.name, kind, type, input: step.input, failure, reason })
  }

  removeDeadLetter(step: string): void {
    this.#deadLetters.set(step, undefined)
  }

  addHumanDecision(decision: HumanDecision): void {
    this.#humanDecisions.push(decision)
  }

  write(event: WorkflowEvent): void {
    this.#events.push(event)
  }

  decision(): Decision {
    const queue = [...this.#queue.values()]
    const letters = [...this.#deadLetters]
    return {
      call: this.#call,
      instance: this.#instance,
      steps: [...this.#steps.values()],
      enqueue: queue.filter((entry): entry is QueueItem => 'delayMs' in entry),
      remove: queue.filter((entry) => !('delayMs' in entry)),
      abort: [...this.#abort],
      deadLetters: letters.flatMap(([, letter]) => letter ?? []),
      removedDeadLetters: letters.flatMap(([step, letter]) => (letter === undefined ? [step] : [])),
      humanDecisions: this.#humanDecisions,
      events: this.#events,
    }
  }
}

function lastOrder(steps: Iterable<StepState>): number {
  let last = 0
  for (const { order } of steps) last = Math.max(last, order ?? 0)
  return last
}

/** An event about a step as it is now. */
export function stepEvent(
  type: WorkflowEvent['type'],
  step: StepState,
  more: Pick<WorkflowEvent, 'actor' | 'reason' | 'detail'> & { failure?: Failure; attempts?: number } = {},
): WorkflowEvent {
  const { failure, ...rest } = more
  const error = failure === undefined ? {} : { error: { code: failure.code, message: failure.message } }
  return { type, step: step.name, status: step.status, ...rest, ...error }
}
