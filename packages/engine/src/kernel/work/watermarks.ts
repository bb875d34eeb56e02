import type { Claimed, ClaimLane, ClaimResult } from './source.js'

/** Full scans may take this share of a worker's time: the more one costs, the rarer they are. */
const SHARE_OF_TIME = 0.02
const LONGEST_BETWEEN_FULL_SCANS = 5_000

/**
 * Where the next claim of each type begins to read. Index entries of claimed rows stay in the index while a snapshot of
 * another transaction pins them; a claim that began at the lowest due time would read all of them every time. So a claim
 * begins where the last one ended, and from time to time a full scan finds rows that became visible below the watermark
 * (of a transaction that stayed open for long, or a lease that was not claimed after an outage).
 */
export interface Watermarks {
  /** The lanes of the next claim, in an order that rotates so that no type starves. */
  lanes(types: readonly string[], now: number): { readonly lanes: readonly ClaimLane[]; readonly full: boolean }
  advance(
    result: ClaimResult<Claimed>,
    scan: { readonly full: boolean; readonly began: number; readonly ended: number },
  ): void
  /** The next claim is a full scan. */
  forget(): void
}

export function createWatermarks(): Watermarks {
  const marks = new Map<string, number>()
  let nextFullScan = Number.NEGATIVE_INFINITY
  let turn = 0

  return {
    lanes(types, now) {
      const full = now >= nextFullScan
      turn = types.length === 0 ? 0 : (turn + 1) % types.length
      const rotated = [...types.slice(turn), ...types.slice(0, turn)]
      return { full, lanes: rotated.map((type) => ({ type, from: full ? null : (marks.get(type) ?? null) })) }
    },
    advance(result, { full, began, ended }) {
      for (const { type, mark } of result.marks) marks.set(type, mark)
      if (full) nextFullScan = ended + Math.min((ended - began) / SHARE_OF_TIME, LONGEST_BETWEEN_FULL_SCANS)
    },
    forget() {
      nextFullScan = Number.NEGATIVE_INFINITY
    },
  }
}
