/** What a system is: ours, another library, or a script that shows what the hardware allows. */
export type Role = 'holdfast' | 'peer' | 'ceiling'

export type Better = 'higher' | 'lower'

/**
 * The middle value; of an even number of values, the mean of the two in the middle. Null for none.
 *
 * @example
 * median([3, 1, 2])   // 2
 */
export function median(values: readonly number[]): number | null {
  const sorted = values.toSorted((a, b) => a - b)
  const upper = sorted[Math.floor(sorted.length / 2)]
  const lower = sorted[Math.ceil(sorted.length / 2) - 1]
  return upper === undefined || lower === undefined ? null : (lower + upper) / 2
}

interface Contender {
  readonly role: Role
  readonly value: number
  /** It is what the others are compared with, whatever its value. */
  readonly baseline?: boolean
}

/**
 * The system that all others are compared with: the baseline; where none is marked, the best peer; where nobody else's library takes
 * part, the best ceiling.
 *
 * @example
 * bestRival([{ role: 'ceiling', value: 90 }, { role: 'peer', value: 30 }, { role: 'holdfast', value: 60 }])   // the peer
 */
export function bestRival<T extends Contender>(results: readonly T[], better: Better = 'higher'): T | undefined {
  const direction = better === 'higher' ? 1 : -1
  const best = (role: Role) =>
    results.filter((result) => result.role === role).toSorted((a, b) => direction * (b.value - a.value))[0]
  return results.find((result) => result.baseline) ?? best('peer') ?? best('ceiling')
}

/**
 * The order of a round. Every round begins with another system, so that none always has the caches of the same
 * predecessor or the quietest moment of the machine.
 *
 * @example
 * rotated(['a', 'b', 'c'], 1)   // ['b', 'c', 'a']
 */
export function rotated<T>(systems: readonly T[], round: number): readonly T[] {
  const first = systems.length === 0 ? 0 : round % systems.length
  return [...systems.slice(first), ...systems.slice(0, first)]
}
