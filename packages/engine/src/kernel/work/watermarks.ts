import type { ClaimAnswer, Claimed, ClaimLane } from './source.js'

/** Full looks may take this share of a worker's time; the dearer they are, the rarer they get. */
const SHARE_OF_TIME = 0.02
const LONGEST_BETWEEN_FULL_LOOKS = 5_000

/**
 * Where each type's next claim begins to look (K-17). Index entries of rows that were claimed stay in the index while
 * somebody's snapshot pins them; a claim that began at the lowest due time would read them all, again and again. So a
 * claim begins where the last one ended, and now and then everything is looked through, for rows that became visible
 * below the mark (a transaction that stayed open for long, a lease in the grace after an outage).
 */
export interface Watermarks {
  /** The lanes of the next claim, in an order that rotates so that no type starves. */
  lanes(types: readonly string[], now: number): { readonly lanes: readonly ClaimLane[]; readonly full: boolean }
  learned(
    answer: ClaimAnswer<Claimed>,
    look: { readonly full: boolean; readonly began: number; readonly ended: number },
  ): void
  /** The next claim looks at everything. */
  forget(): void
}

export function createWatermarks(): Watermarks {
  const marks = new Map<string, number>()
  let nextFullLook = Number.NEGATIVE_INFINITY
  let turn = 0

  return {
    lanes(types, now) {
      const full = now >= nextFullLook
      turn = types.length === 0 ? 0 : (turn + 1) % types.length
      const rotated = [...types.slice(turn), ...types.slice(0, turn)]
      return { full, lanes: rotated.map((type) => ({ type, from: full ? null : (marks.get(type) ?? null) })) }
    },
    learned(answer, { full, began, ended }) {
      for (const { type, mark } of answer.marks) marks.set(type, mark)
      if (full) nextFullLook = ended + Math.min((ended - began) / SHARE_OF_TIME, LONGEST_BETWEEN_FULL_LOOKS)
    },
    forget() {
      nextFullLook = Number.NEGATIVE_INFINITY
    },
  }
}
