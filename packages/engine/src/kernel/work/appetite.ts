/** The most that is claimed ahead of free slots, so that one worker never hoards what others could run. */
const MOST_AHEAD = 1_000
/** Work that ends within a few claims counts as short, and is claimed for so long ahead: larger claims cost less each. */
const SHORT = 4
const AHEAD_MS = 25
/** How much of the newest measurement goes into the running means. */
const WEIGHT_OF_CLAIM = 0.25
const WEIGHT_OF_ITEM = 0.02

/**
 * How many items to hold: one per slot, and for short work as many more as the slots get through while the next claims
 * are under way, so that it never waits for a round trip. Longer work is not claimed ahead.
 */
export interface Appetite {
  /** How many to ask for, given what is held already; 0 while there is enough. */
  room(held: number): number
  itemTook(milliseconds: number): void
  claimTook(milliseconds: number): void
}

export function createAppetite(concurrency: number): Appetite {
  let itemMs = Number.POSITIVE_INFINITY
  let claimMs = 0

  return {
    room(held) {
      const aheadMs = itemMs <= claimMs * SHORT ? Math.max(claimMs, AHEAD_MS) : claimMs
      const ahead = Math.min(Math.floor((concurrency * aheadMs) / itemMs), MOST_AHEAD)
      // Ahead of the slots it is worth a statement only in larger helpings; a free slot is worth one at once.
      if (held >= concurrency + ahead / 2) return 0
      return Math.max(0, concurrency + ahead - held)
    },
    itemTook(milliseconds) {
      // No clock resolves shorter times, and nothing is gained by claiming even more ahead.
      const took = Math.max(milliseconds, 0.05)
      itemMs = itemMs === Number.POSITIVE_INFINITY ? took : itemMs + (took - itemMs) * WEIGHT_OF_ITEM
    },
    claimTook(milliseconds) {
      claimMs += (milliseconds - claimMs) * WEIGHT_OF_CLAIM
    },
  }
}
