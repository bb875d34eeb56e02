import type { Mark } from '../queries/release-items.js'

/** Full scans may take this share of the time: the more one costs, the rarer they are. */
const SHARE_OF_TIME = 0.02
const LONGEST_BETWEEN_FULL_LOOKS = 5_000

/**
 * Where the next claim begins to read: like kernel/work/watermarks.ts, but by due time and seq, because a million items may
 * be due at the same instant. Now and then a full scan finds items that became due below the mark.
 */
export interface Marks {
  /** Where the scan begins; undefined: a full scan. */
  from(now: number): Mark | undefined
  learned(
    mark: Mark | undefined,
    look: { readonly full: boolean; readonly began: number; readonly ended: number },
  ): void
}

export function createMarks(): Marks {
  let last: Mark | undefined
  let nextFullLook = Number.NEGATIVE_INFINITY
  return {
    from: (now) => (now >= nextFullLook ? undefined : last),
    learned(mark, { full, began, ended }) {
      if (mark) last = mark
      if (full) nextFullLook = ended + Math.min((ended - began) / SHARE_OF_TIME, LONGEST_BETWEEN_FULL_LOOKS)
    },
  }
}
