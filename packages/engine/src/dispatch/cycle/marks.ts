import type { Mark } from '../queries/release-items.js'

/** Full looks may take this share of the time; the dearer they are, the rarer they get. */
const SHARE_OF_TIME = 0.02
const LONGEST_BETWEEN_FULL_LOOKS = 5_000

/**
 * Where the next claim begins to look: as kernel/work/watermarks.ts does, but by due time and seq, since a million items may
 * be due at the same instant). Now and then everything is looked through, for items that became due below the mark.
 */
export interface Marks {
  /** From where to look; undefined: everything. */
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
