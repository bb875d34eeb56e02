/** The same seed always gives the same numbers, on every machine. */
export type Seed = number | string

/**
 * Numbers from 0 to 1 that follow from a seed.
 *
 * @example
 * const random = createRandom('run 7')
 * random() // always the same first number
 */
export function createRandom(seed: Seed): () => number {
  let state = hash(String(seed))
  // mulberry32: small, and good enough to choose who fails.
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** A list in an order that follows from the numbers. */
export function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const keyed = items.map((item) => ({ item, at: random() }))
  return keyed.sort((a, b) => a.at - b.at).map(({ item }) => item)
}

/** FNV-1a with a final mix, so that seeds which differ in their last letter only give numbers that have nothing in common. */
function hash(text: string): number {
  let value = 0x811c9dc5
  for (const letter of text) value = Math.imul(value ^ (letter.codePointAt(0) ?? 0), 0x01000193)
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b)
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35)
  return value ^ (value >>> 16)
}
