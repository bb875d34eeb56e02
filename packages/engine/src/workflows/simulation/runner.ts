import type { CallOutcome } from '../../kernel/calls/outcome.js'
import { classifyFailure } from '../../kernel/failure/classify.js'
import { BusinessError } from '../../kernel/failure/failure-errors.js'
import type { WorkflowDefinition } from '../definition/definition.js'
import { instanceHasEnded } from '../states.js'
import type { Fails } from './graphs.js'
import { by, type Item, payload, Simulation } from './simulation.js'

const transient = classifyFailure(new Error('try again'), { unknown: 'transient' })
const business = classifyFailure(new BusinessError('no'), { unknown: 'transient' })

export interface Fate {
  readonly fails: ReadonlyMap<string, Fails>
  /** Compensations that never succeed. */
  readonly undoFails?: ReadonlySet<string>
  /** How many workers may die on the way, and how many may be stopped in order during a call. */
  readonly kills?: number
  readonly stops?: number
  /** What people do, and at which turn. */
  readonly at?: { readonly turn: number; readonly what: 'cancel' | 'abort' }
  /** Picks one of so many: the order in which things happen. */
  readonly pick: (count: number) => number
}

/** Runs an instance to its rest: workers claim and end what they like in any order, and people confirm what they see. */
export class Runner {
  readonly simulation: Simulation
  readonly #fate: Fate
  /** The order in which steps really ended, and were really undone, as an onlooker saw it. */
  readonly ended: string[] = []
  readonly undone: string[] = []
  /** How the calls of each step really ended, as far as the one who made them could know. */
  readonly outcomes = new Map<string, CallOutcome[]>()
  #killsLeft: number
  #stopsLeft: number
  #turn = 0

  constructor(definition: WorkflowDefinition, fate: Fate) {
    this.simulation = new Simulation(definition, { n: 1 })
    this.#fate = fate
    this.#killsLeft = fate.kills ?? 0
    this.#stopsLeft = fate.stops ?? 0
  }

  run(): this {
    const { simulation } = this
    if (simulation.state.status === 'PENDING') this.#do(() => simulation.start())
    for (let turns = 0; this.#takeTurn(); turns += 1) {
      if (turns > 5_000) throw new Error('it does not end')
    }
    return this
  }

  /** Applies one event that is possible; returns whether there was any. */
  #takeTurn(): boolean {
    const { simulation } = this
    const { at, pick } = this.#fate
    this.#turn += 1
    if (at?.turn === this.#turn && !instanceHasEnded(simulation.state.status)) {
      this.#do(() => simulation.apply({ type: at.what, by }))
      return true
    }
    const waiting = [...simulation.state.steps.values()].filter(({ status }) => status === 'WAITING_DECISION')
    const choices = [
      ...[...simulation.queue.values()].map((item) => () => this.#work(item)),
      ...waiting.map(
        ({ name }) =>
          () =>
            simulation.apply({ type: 'decided', step: name, decision: 'confirm', by }),
      ),
    ]
    const chosen = choices[pick(choices.length)]
    if (chosen !== undefined) this.#do(chosen)
    return chosen !== undefined
  }

  #work(item: Item): void {
    const { simulation } = this
    const { step, kind } = item
    if (!item.claimed) simulation.claim(step, kind)
    else if (this.#killsLeft > 0 && this.#fate.pick(4) === 0) {
      this.#killsLeft -= 1
      if (kind === 'step') this.#note(step, 'unknown')
      simulation.claim(step, kind)
    } else if (this.#stopsLeft > 0 && this.#fate.pick(4) === 0) {
      this.#stopsLeft -= 1
      if (kind === 'step') this.#note(step, 'unknown')
      simulation.apply({ type: 'interrupted', step, kind })
    } else if (kind === 'compensation') {
      if (this.#fate.undoFails?.has(step)) simulation.apply({ type: 'compensation_failed', step, failure: transient })
      else simulation.apply({ type: 'compensated', step })
    } else this.#end(step)
  }

  #end(step: string): void {
    const { simulation } = this
    const fails = this.#fate.fails.get(step) ?? 'never'
    const attempts = simulation.state.steps.get(step)?.attempts ?? 0
    const fail = fails === 'always' || (typeof fails === 'number' && attempts <= fails)
    this.#note(step, !fail ? 'completed' : fails === 'always' ? 'refused' : 'unknown')
    if (!fail) simulation.apply({ type: 'completed', step, output: payload({ step }) })
    else simulation.apply({ type: 'failed', step, failure: fails === 'always' ? business : transient })
  }

  #note(step: string, outcome: CallOutcome): void {
    this.outcomes.set(step, [...(this.outcomes.get(step) ?? []), outcome])
  }

  /** Whether some call of the step may have had an effect. */
  mayHaveDone(step: string): boolean {
    return this.outcomes.get(step)?.some((outcome) => outcome !== 'refused') ?? false
  }

  #do(act: () => unknown): void {
    const { simulation } = this
    const before = simulation.state.steps
    act()
    const changed = [...simulation.state.steps.values()].filter((step) => before.get(step.name) !== step)
    const newlyEnded = changed.filter(({ name, order }) => order !== null && before.get(name)?.order !== order)
    const inOrder = newlyEnded.toSorted((a, b) => (a.order ?? 0) - (b.order ?? 0))
    this.ended.push(...inOrder.map(({ name }) => name))
    this.undone.push(...simulation.events.slice(this.#seen).flatMap(undoneBy))
    this.#seen = simulation.events.length
  }

  #seen = 0
}

/** A compensation begins, or a step without one is passed. */
function undoneBy(event: { type: string; step?: string; detail?: object }): string[] {
  const passed = event.type === 'compensation_success' && event.detail !== undefined
  return event.step !== undefined && (passed || event.type === 'compensation_started') ? [event.step] : []
}
