// Checks that a definition is a workflow: every path ends, forks and joins match, names are unique, no loops. The
// builder and the loader of JSON files call it before anything is stored. It throws with the step and the fix;
// `decide/` relies on every definition having passed it.

import { nearestName } from '../../kernel/validation/nearest.js'
import { parseCondition } from '../condition/condition.js'
import { compensationOf, type StepDefinition, successorsOf } from './definition.js'
import { invalidWorkflow } from './invalid.js'
import { handlerNameProblem, nameProblem } from './names.js'

/** The walk through a definition and all decisions go as deep as forks are nested. */
const DEEPEST = 500

/** A step is stored under its number, a smallint. */
const MOST_STEPS = 32_767

/**
 * Refuses an invalid workflow, naming the step and the fix, and returns the steps in the order in which they are
 * reached, so that the same graph is the same data however it was written down.
 */
export function checkSteps(workflow: string, steps: readonly StepDefinition[]): readonly StepDefinition[] {
  const [first] = steps
  if (first === undefined) throw invalidWorkflow(workflow, undefined, 'it has no steps; add one with `step`')
  if (steps.length > MOST_STEPS) {
    const problem = `it has ${steps.length} steps; ${MOST_STEPS} is the most, split the workflow`
    throw invalidWorkflow(workflow, undefined, problem)
  }
  const byName = checkNames(workflow, steps)
  for (const step of steps) checkStep(workflow, step)
  const ordered = new Walk(workflow, byName).from(first)
  const reached = new Set(ordered)
  const lost = steps.find((step) => !reached.has(step))
  if (lost !== undefined) {
    throw invalidWorkflow(workflow, lost.name, 'no step leads here; name it as the `next` of one, or remove it')
  }
  return ordered
}

function checkNames(workflow: string, steps: readonly StepDefinition[]): ReadonlyMap<string, StepDefinition> {
  const byName = new Map<string, StepDefinition>()
  const taken = new Set<string>()
  for (const step of steps) {
    for (const name of [step.name, ...[compensationOf(step)?.name ?? []].flat()]) {
      const problem = nameProblem(name)
      if (problem !== undefined) throw invalidWorkflow(workflow, String(name), problem)
      if (taken.has(name)) throw invalidWorkflow(workflow, name, 'the name is used twice; give each step its own')
      taken.add(name)
    }
    byName.set(step.name, step)
  }
  return byName
}

function checkStep(workflow: string, step: StepDefinition): void {
  const refuse = (problem: string, options?: ErrorOptions) => invalidWorkflow(workflow, step.name, problem, options)
  const compensation = compensationOf(step)
  const handlerless = compensation === undefined ? undefined : handlerNameProblem(compensation.handler)
  if (handlerless !== undefined) throw refuse(`its compensation has no handler: ${handlerless}`)
  switch (step.type) {
    case 'task': {
      const problem = handlerNameProblem(step.handler)
      if (problem !== undefined) throw refuse(`it has no handler: ${problem}`)
      return
    }
    case 'fork':
    case 'parallel':
      if (step.branches.length >= 2) return
      throw refuse(`a ${step.type} has two branches or more, not ${step.branches.length}; a single path needs none`)
    case 'condition':
      try {
        parseCondition(step.expression)
        return
      } catch (cause) {
        throw refuse(cause instanceof Error ? cause.message : String(cause), { cause })
      }
    default:
      return
  }
}

/** Follows a definition from its start. A step met again is a cycle or a place where branches meet without a join. */
class Walk {
  readonly #workflow: string
  readonly #byName: ReadonlyMap<string, StepDefinition>
  readonly #ordered: StepDefinition[] = []
  /** Each step met, and the one that led to it. */
  readonly #ledBy = new Map<string, string>()
  #depth = 0

  constructor(workflow: string, byName: ReadonlyMap<string, StepDefinition>) {
    this.#workflow = workflow
    this.#byName = byName
  }

  from(first: StepDefinition): readonly StepDefinition[] {
    this.#ledBy.set(first.name, '')
    this.#path(first, false)
    return this.#ordered
  }

  #path(first: StepDefinition, inFork: boolean): void {
    let step: StepDefinition | undefined = first
    let before: StepDefinition | undefined
    while (step !== undefined) {
      this.#ordered.push(step)
      this.#checkPlace(step, before, inFork)
      this.#sidePaths(step, inFork)
      before = step
      step = step.next === undefined ? undefined : this.#lead(step, step.next)
    }
  }

  #sidePaths(step: StepDefinition, inFork: boolean): void {
    this.#depth += 1
    if (this.#depth > DEEPEST) throw this.#refuse(step, `is nested deeper than ${DEEPEST}; split the workflow`)
    const forks = step.type === 'fork' || step.type === 'parallel'
    for (const name of successorsOf(step).slice(0, step.next === undefined ? undefined : -1)) {
      this.#path(this.#lead(step, name), inFork || forks)
    }
    this.#depth -= 1
  }

  #checkPlace(step: StepDefinition, before: StepDefinition | undefined, inFork: boolean): void {
    if (step.type === 'join' && before?.type !== 'fork') {
      throw this.#refuse(step, 'a join stands right after its fork; put a `fork` before it or remove it')
    }
    if (before?.type === 'fork' && step.type !== 'join') {
      throw this.#refuse(
        step,
        `fork \`${before.name}\` has to be joined first: put a \`join\` between, or use \`parallel\``,
      )
    }
    if (step.type === 'save_point' && inFork) {
      throw this.#refuse(
        step,
        'a save point cannot be inside a fork, where others are under way; put it after the join',
      )
    }
  }

  #lead(from: StepDefinition, name: string): StepDefinition {
    const step = this.#byName.get(name)
    if (step === undefined) throw this.#refuse(from, this.#unknown(name))
    const other = this.#ledBy.get(name)
    if (other !== undefined) throw this.#refuse(step, this.#metAgain(from, name, other))
    this.#ledBy.set(name, from.name)
    return step
  }

  #metAgain(from: StepDefinition, name: string, other: string): string {
    const path = [name]
    for (let at: string | undefined = from.name; at !== undefined && at !== ''; at = this.#ledBy.get(at)) {
      path.unshift(at)
      if (at === name) return `it leads back to itself (${path.join(' → ')}); a workflow has no cycles`
    }
    const both =
      other === ''
        ? `it is the start, and \`${from.name}\` leads to it`
        : `\`${other}\` and \`${from.name}\` both lead to it`
    return `${both}; only a join brings branches together`
  }

  #unknown(name: string): string {
    const nearest = nearestName(name, [...this.#byName.keys()])
    return `leads to \`${name}\`, which does not exist${nearest === undefined ? '; add it' : `; did you mean \`${nearest}\`?`}`
  }

  #refuse(step: StepDefinition, problem: string) {
    return invalidWorkflow(this.#workflow, step.name, problem)
  }
}
