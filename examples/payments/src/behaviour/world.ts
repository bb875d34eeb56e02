import { behaviour, createRandom, type Behaviour as Dice, type Roll } from '@holdfast/testing'
import { type Behaviour, optionsOf, type SimulatedStep } from './behaviour.js'

/** What the simulated world uses of a payment: seed and behaviour of its batch, and its place in the batch. */
export interface World {
  readonly seed: string | null
  readonly ordinal: number
  readonly behaviour: Behaviour | null
}

/** The columns of `World`, for queries that have `payment` and left join `batch`. */
export const worldColumns = 'batch.seed, payment.ordinal, batch.behaviour'

/**
 * The outcome of the nth call of a step. It depends on the seed, the payment's place in its batch and the number of the
 * call alone, not on which program calls, or when.
 */
export function roll(world: World, step: SimulatedStep, nth = 1): Roll {
  return diceOf(world, step).roll(rollKeyOf(world.ordinal, step, nth))
}

/** How the world treats this payment at a step. */
export function diceOf({ seed, behaviour: steps }: World, step: SimulatedStep): Dice {
  const described = steps?.[step]
  return behaviour(described ? optionsOf(described) : {}, seed ?? '')
}

/** A second random draw for the same call: whether it took effect although its response was lost. */
export function tookEffect({ seed, ordinal }: World, step: SimulatedStep, nth: number): boolean {
  return createRandom(`${seed ?? ''}/${rollKeyOf(ordinal, step, nth)}/effect`)() < 0.5
}

export const rollKeyOf = (ordinal: number, step: SimulatedStep, nth = 1) => `${ordinal}/${step}/${nth}`
