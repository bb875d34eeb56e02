import { decide } from '../decide/decide.js'
import {
  applyDecision,
  type DeadLetter,
  type Decision,
  type QueueItem,
  type WorkflowEvent,
} from '../decide/decision.js'
import type { InstanceEvent } from '../decide/instance-event.js'
import type { CallKind, InstanceState, Payload } from '../decide/state.js'
import type { WorkflowDefinition } from '../definition/definition.js'
import { checkDecision, checkState } from './invariants.js'

export const by = { actor: 'ann', reason: 'test' }
export const payload = (value: unknown): Payload => ({ json: JSON.stringify(value), notes: null })

export interface Item extends QueueItem {
  claimed: boolean
}

/**
 * The smallest store there can be: decisions are applied to maps, and after each the invariants are checked. It knows the
 * definition and nothing of how decisions are made.
 */
export class Simulation {
  readonly definition: WorkflowDefinition
  readonly tasks: ReadonlySet<string>
  state: InstanceState
  readonly queue = new Map<string, Item>()
  readonly deadLetters = new Map<string, DeadLetter>()
  readonly events: WorkflowEvent[] = []
  readonly calls: { step: string; kind: CallKind; attempt: number }[] = []
  readonly aborted: string[] = []
  readonly #random: () => number

  constructor(definition: WorkflowDefinition, input: unknown = {}, random: () => number = () => 0.5) {
    this.definition = definition
    this.tasks = new Set(definition.steps.filter(({ type }) => type === 'task').map(({ name }) => name))
    this.#random = random
    const id = '0190163d-8694-739b-aea5-966c26f8ad91'
    this.state = { id, status: 'PENDING', input: payload(input), output: null, failure: null, steps: new Map() }
  }

  apply(event: InstanceEvent): Decision {
    const before = this.state
    const decision = decide(this.definition, before, event, { random: this.#random })
    this.state = applyDecision(before, decision)
    checkDecision(before, decision, this.state)
    for (const { step, kind } of decision.remove) this.queue.delete(`${kind} ${step}`)
    for (const item of decision.enqueue) this.queue.set(`${item.kind} ${item.step}`, { ...item, claimed: false })
    for (const step of decision.removedDeadLetters) this.deadLetters.delete(step)
    for (const letter of decision.deadLetters) this.deadLetters.set(letter.step, letter)
    this.aborted.push(...decision.abort)
    this.events.push(...decision.events)
    if (decision.call !== null) this.#called(decision.call)
    checkState(this)
    return decision
  }

  #called(call: NonNullable<Decision['call']>): void {
    this.calls.push(call)
    const item = this.queue.get(`${call.kind} ${call.step}`)
    if (item === undefined) throw new Error(`${call.step} is called without an item`)
    item.claimed = true
  }

  start(): this {
    this.apply({ type: 'started' })
    return this
  }

  claim(step: string, kind: CallKind = 'step'): Decision {
    if (!this.queue.has(`${kind} ${step}`)) throw new Error(`there is no ${kind} ${step} to claim`)
    return this.apply({ type: 'claimed', step, kind })
  }

  /** Claims the step and lets its handler return. */
  complete(step: string, output: unknown = { of: step }): this {
    this.claim(step)
    this.apply({ type: 'completed', step, output: payload(output) })
    return this
  }

  compensate(step: string): this {
    this.claim(step, 'compensation')
    this.apply({ type: 'compensated', step })
    return this
  }

  statuses(): Record<string, string> {
    return Object.fromEntries([...this.state.steps.values()].map(({ name, status }) => [name, status]))
  }

  /** What waits to be claimed. */
  waiting(): string[] {
    return [...this.queue.values()].filter(({ claimed }) => !claimed).map(({ step, kind }) => `${kind} ${step}`)
  }

  eventTypes(): string[] {
    return this.events.map(({ type, step }) => (step === undefined ? type : `${type} ${step}`))
  }
}
