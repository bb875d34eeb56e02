import { setTimeout as sleep } from 'node:timers/promises'
import { BusinessError, type Duration, PermanentError, TransientError } from 'holdfast'
import { checkOptions, parseDuration } from 'holdfast/internal'
import { createRandom, type Seed } from './random.js'

/** How often, in per cent, a call ends otherwise than well; how long it takes. What is left out is 0. */
export interface BehaviourOptions {
  readonly permanent?: number
  readonly transient?: number
  readonly business?: number
  readonly timeout?: number
  readonly pending?: number
  readonly minDuration?: Duration
  readonly maxDuration?: Duration
}

export type Outcome = 'PERMANENT' | 'TRANSIENT' | 'BUSINESS' | 'TIMEOUT' | 'PENDING' | 'SUCCESS'

export interface Roll {
  readonly outcome: Outcome
  readonly durationMs: number
}

/** Something that behaves by chance, always the same from the same seed. */
export interface Behaviour {
  /**
   * What happens to the call of this key, always the same for the same key. Without a key the next in order: then what
   * happens to whom depends on who comes first.
   */
  roll(key?: string): Roll
  /** Takes as long as the roll says, and throws what fits; returns whether it is done or a person has to decide. */
  act(key?: string): Promise<'SUCCESS' | 'PENDING'>
}

/** In the order in which one roll is compared with them, each on top of those before it. */
const ORDER = [
  ['permanent', 'PERMANENT'],
  ['transient', 'TRANSIENT'],
  ['business', 'BUSINESS'],
  ['timeout', 'TIMEOUT'],
  ['pending', 'PENDING'],
] as const

/**
 * A behaviour by chance, from a seed.
 *
 * @example
 * const bank = behaviour({ transient: 10, business: 5, maxDuration: '20ms' }, 'run 7')
 * await bank.act(`${paymentId}/${attempt}`) // throws a TransientError for one payment in ten, the same ones every run
 */
export function behaviour(options: BehaviourOptions, seed: Seed): Behaviour {
  const [shortest, longest] = checkBehaviour(options)
  const inOrder = createRandom(`${seed}`)

  function roll(key?: string): Roll {
    const random = key === undefined ? inOrder : createRandom(`${seed}/${key}`)
    const rolled = random() * 100
    let upTo = 0
    const found = ORDER.find(([share]) => {
      upTo += options[share] ?? 0
      return rolled < upTo
    })
    return { outcome: found?.[1] ?? 'SUCCESS', durationMs: shortest + random() * (longest - shortest) }
  }

  return {
    roll,
    async act(key) {
      const { outcome, durationMs } = roll(key)
      if (durationMs > 0) await sleep(durationMs)
      if (outcome === 'SUCCESS' || outcome === 'PENDING') return outcome
      throw failureOf(outcome)
    },
  }
}

/**
 * A behaviour per step, each with rolls of its own; a step that is not named always goes well.
 *
 * @example
 * const chance = behaviours({ bookRisk: { transient: 10 }, submit: { timeout: 2 } }, seed)
 * await chance('bookRisk').act(idempotencyKey)
 */
export function behaviours(steps: Readonly<Record<string, BehaviourOptions>>, seed: Seed): (step: string) => Behaviour {
  const known = new Map(Object.entries(steps).map(([step, options]) => [step, behaviour(options, `${seed}/${step}`)]))
  const well = behaviour({}, seed)
  return (step) => known.get(step) ?? well
}

/** Refuses shares that are no percentages or more than 100 together; returns the durations. */
export function checkBehaviour(options: BehaviourOptions): readonly [shortest: number, longest: number] {
  checkOptions('behaviour', options, [...ORDER.map(([share]) => share), 'minDuration', 'maxDuration'])
  const shares = ORDER.map(([share]) => ({ share, value: options[share] ?? 0 }))
  const bad = shares.find(({ value }) => !Number.isFinite(value) || value < 0 || value > 100)
  if (bad) throw new RangeError(`behaviour: ${bad.share} is ${bad.value}; it must be a percentage from 0 to 100`)
  const sum = shares.reduce((total, { value }) => total + value, 0)
  // In binary, 33.4 + 33.3 + 33.3 is a little more than 100.
  if (sum > 100 + 1e-9) throw new RangeError(`behaviour: the percentages add up to ${sum}, more than 100`)
  const shortest = parseDuration(options.minDuration ?? 0, 'behaviour: minDuration')
  const longest = parseDuration(options.maxDuration ?? shortest, 'behaviour: maxDuration')
  if (longest < shortest) throw new RangeError('behaviour: maxDuration is less than minDuration')
  return [shortest, longest]
}

function failureOf(outcome: Exclude<Outcome, 'SUCCESS' | 'PENDING'>): Error {
  switch (outcome) {
    case 'PERMANENT':
      return new PermanentError('simulated permanent failure', { code: 'PERM_ERROR' })
    case 'TRANSIENT':
      return new TransientError('simulated transient failure', { code: 'TRANS_ERROR' })
    case 'BUSINESS':
      return new BusinessError('simulated business failure', { code: 'BIZ_ERROR' })
    case 'TIMEOUT':
      return new TransientError('simulated timeout', { code: 'TIMEOUT' })
  }
}
