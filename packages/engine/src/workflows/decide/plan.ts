// A definition prepared for decisions: steps by name, the branch each step is in, what each join waits for. Computed once per
// definition; every rule of this folder reads it.

import { HoldfastError } from '../../kernel/errors.js'
import { definitionOf } from '../../kernel/model/index.js'
import { nearestName } from '../../kernel/validation/nearest.js'
import { type Condition, parseCondition } from '../condition/condition.js'
import {
  type ForkStep,
  type JoinStrategy,
  type ParallelStep,
  type StepDefinition,
  successorsOf,
  type WorkflowDefinition,
} from '../definition/definition.js'
import type { StepState } from './state.js'

/** The branch that a step is in: whose, and by which first step it is known. */
export interface Place {
  readonly fork: string
  readonly branch: string
}

/** Branches under way at once: where they begin, and the step that waits for them. */
export interface Block {
  readonly fork: string
  readonly branches: readonly string[]
  /** The join; without one the fork itself. */
  readonly closer: string
  readonly strategy: JoinStrategy
}

/** A definition prepared for decisions: computed once, read often. */
export class Plan {
  readonly definition: WorkflowDefinition
  readonly start: string
  readonly #steps = new Map<string, StepDefinition>()
  readonly #places = new Map<string, Place>()
  readonly #blocks = new Map<string, Block>()
  readonly #closed = new Map<string, Block>()
  readonly #conditions = new Map<string, Condition>()

  constructor(definition: WorkflowDefinition) {
    this.definition = definition
    this.start = definition.steps[0]?.name ?? ''
    for (const step of definition.steps) this.#steps.set(step.name, step)
    for (const step of definition.steps) this.#note(step)
  }

  /** Steps come after the step that leads to them, so that one's place is known by now. */
  #note(step: StepDefinition): void {
    const forks = step.type === 'fork' || step.type === 'parallel'
    const own = this.#places.get(step.name)
    for (const name of successorsOf(step)) {
      const place = forks && step.branches.includes(name) ? { fork: step.name, branch: name } : own
      if (place !== undefined) this.#places.set(name, place)
    }
    if (forks) this.#noteBlock(step)
    if (step.type === 'condition') this.#conditions.set(step.name, parseCondition(step.expression))
  }

  #noteBlock(step: ForkStep | ParallelStep): void {
    const next = step.next === undefined ? undefined : this.#steps.get(step.next)
    const join = next?.type === 'join' ? next : undefined
    const { name: fork, branches } = step
    const block = { fork, branches, closer: join?.name ?? fork, strategy: join?.strategy ?? 'all' } as const
    this.#blocks.set(fork, block)
    this.#closed.set(block.closer, block)
  }

  step(name: string): StepDefinition {
    const step = this.#steps.get(name)
    if (step !== undefined) return step
    const nearest = nearestName(name, [...this.#steps.keys()])
    const { name: workflow, version } = this.definition
    const details = { ...definitionOf('workflows', workflow), version, step: name }
    throw new HoldfastError('HF_UNKNOWN_STEP', nearest === undefined ? details : { ...details, nearest })
  }

  placeOf(name: string): Place | undefined {
    return this.#places.get(name)
  }

  blockOf(fork: string): Block | undefined {
    return this.#blocks.get(fork)
  }

  blockClosedBy(closer: string): Block | undefined {
    return this.#closed.get(closer)
  }

  conditionOf(name: string): Condition | undefined {
    return this.#conditions.get(name)
  }

  /** Where a step that is done leads; nowhere at the end of its path. */
  nextOf({ name, side }: StepState): string | undefined {
    const step = this.step(name)
    return step.type === 'condition' && side === 'else' ? step.else : step.next
  }

  isInside(name: string, { fork, branch }: Place): boolean {
    for (let at = this.placeOf(name); at !== undefined; at = this.placeOf(at.fork)) {
      if (at.fork === fork && at.branch === branch) return true
    }
    return false
  }

  /** What can be reached from a step: of a save point, all that may be undone. */
  after(name: string): ReadonlySet<string> {
    const found = new Set<string>()
    const open = [name]
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      for (const next of successorsOf(this.step(at))) {
        found.add(next)
        open.push(next)
      }
    }
    return found
  }
}

const plans = new WeakMap<WorkflowDefinition, Plan>()

export function planOf(definition: WorkflowDefinition): Plan {
  const known = plans.get(definition)
  if (known !== undefined) return known
  const plan = new Plan(definition)
  plans.set(definition, plan)
  return plan
}
