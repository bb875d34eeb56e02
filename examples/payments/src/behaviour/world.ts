import type { Level } from '../domain/payment.js'
import { type Behaviour, type Outcome, outcomeOf, type SimulatedStep } from './behaviour.js'
import { diceOf } from './dice.js'

/** What the simulated world knows of a payment: its batch's seed and behaviour, and its place in it. */
export interface World {
  readonly seed: string | null
  readonly ordinal: number
  readonly behaviour: Behaviour | null
}

/** The columns of `World`, for queries that have `payment` and left join `batch`. */
export const worldColumns = 'batch.seed, payment.ordinal, batch.behaviour'

export interface Rolled {
  readonly outcome: Outcome
  readonly durationMs: number
  /** One more throw of the same dice. */
  readonly dice: () => number
}

/** What becomes of the nth call of a step. */
export function roll({ seed, ordinal, behaviour }: World, step: SimulatedStep, nth = 1): Rolled {
  const dice = diceOf(seed ?? '', ordinal, step, nth)
  return { ...outcomeOf(behaviour?.[step], dice), dice }
}

/** What the network makes of a level, and how long it takes. */
export const rollLevel = (world: World, level: Level): Rolled => roll(world, `await${level}`)
