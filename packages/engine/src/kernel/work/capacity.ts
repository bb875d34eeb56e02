/** The most items that are claimed ahead of free slots: other workers could execute them. */
const MOST_AHEAD = 1_000
/** Work that takes no longer than a few claims is short. It is claimed this far ahead, because larger claims cost less per item. */
const SHORT = 4
const AHEAD_MS = 25
/** How much of the newest measurement goes into the running means. */
const WEIGHT_OF_CLAIM = 0.25
const WEIGHT_OF_ITEM = 0.02

/**
 * How many items a worker claims: one per slot, and for short work as many more as the slots execute while the next claims
 * are in flight, so that a slot never waits for a round trip. Longer work is not claimed ahead.
 */
export interface Capacity {
  /** How many items to claim, given how many are held; 0 while there are enough. */
  toClaim(held: number): number
  itemTook(milliseconds: number): void
  claimTook(milliseconds: number): void
}

export function createCapacity(concurrency: number): Capacity {
  let itemMs = Number.POSITIVE_INFINITY
  let claimMs = 0

  return {
    toClaim(held) {
      const aheadMs = itemMs <= claimMs * SHORT ? Math.max(claimMs, AHEAD_MS) : claimMs
      const ahead = Math.min(Math.floor((concurrency * aheadMs) / itemMs), MOST_AHEAD)
      // Claiming ahead of the slots is worth a statement only for many items; a free slot is worth one at once.
      if (held >= concurrency + ahead / 2) return 0
      return Math.max(0, concurrency + ahead - held)
    },
    itemTook(milliseconds) {
      // No clock resolves shorter times, and claiming even further ahead gains nothing.
      const took = Math.max(milliseconds, 0.05)
      itemMs = itemMs === Number.POSITIVE_INFINITY ? took : itemMs + (took - itemMs) * WEIGHT_OF_ITEM
    },
    claimTook(milliseconds) {
      claimMs += (milliseconds - claimMs) * WEIGHT_OF_CLAIM
    },
  }
}
