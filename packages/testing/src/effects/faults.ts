import { createRandom, type Seed } from '../simulation/random.js'

/** What may go wrong with a call of a simulated service. */
export type EffectFault =
  /** The service refuses; no effect. */
  | 'refused'
  /** No connection; no effect. The caller cannot know that. */
  | 'unreachable'
  /** The effect, and then the connection is reset. */
  | 'lostAnswer'
  /** The effect, and then no response until the caller gives up. */
  | 'hangs'
  /** No effect and no response until the caller gives up. */
  | 'hangsBefore'
  /** No response until the caller gives up, and then the effect. */
  | 'late'
  /** The effect, and the response some milliseconds later; a caller that gives up meanwhile does not get it. */
  | 'slow'

export interface FaultedCall {
  readonly execution: string
  readonly name: string
  /** The number of this call of the service, from 1. */
  readonly time: number
  readonly undo: boolean
}

/** Which fault a call meets; undefined for none. Always the same for the same call. */
export type ChooseFault = (call: FaultedCall) => EffectFault | undefined

/** How often, in per cent, each fault comes. */
export type FaultShares = Partial<Record<EffectFault, number>>

/** An undo meets fewer faults, and none at the third call, because compensations are tried three times. */
const UNDO_FAULTS: FaultShares = { unreachable: 10, lostAnswer: 10 }
const LAST_FAULTY_UNDO = 2

/**
 * Faults by chance, from a seed.
 *
 * @example
 * createEffects({ faults: faultsFrom(7, { lostAnswer: 20, refused: 10 }) })
 */
export function faultsFrom(seed: Seed, shares: FaultShares): ChooseFault {
  const sum = Object.values(shares).reduce((total, share) => total + share, 0)
  if (sum > 100) throw new RangeError(`effects: the shares of faults add up to ${sum}, more than 100`)
  return ({ execution, name, time, undo }) => {
    if (undo && time > LAST_FAULTY_UNDO) return undefined
    const rolled = createRandom(`${seed}/${execution}/${name}/${undo ? 'undo' : 'call'}/${time}`)() * 100
    let upTo = 0
    const found = Object.entries(undo ? UNDO_FAULTS : shares).find(([, share]) => {
      upTo += share
      return rolled < upTo
    })
    return found?.[0] as EffectFault | undefined
  }
}
