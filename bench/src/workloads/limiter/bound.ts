/**
 * How many grants in any span are too many: the most by which a span of t seconds exceeds burst + rate × t. Not above 0:
 * the bound was kept.
 *
 * @example
 * mostOverBound([0, 0, 10], 100, 2)   // 0: two at once, and one 10 ms later
 */
export function mostOverBound(grantsMs: readonly number[], rate: number, burst: number): number {
  const sorted = grantsMs.toSorted((a, b) => a - b)
  let most = Number.NEGATIVE_INFINITY
  // Of all spans that end here, the worst begins where the grants so far were the furthest behind the rate.
  let furthestBehind = Number.POSITIVE_INFINITY
  for (const [place, at] of sorted.entries()) {
    furthestBehind = Math.min(furthestBehind, place - (rate * at) / 1000)
    // A microsecond for the rounding of the database's timestamps.
    most = Math.max(most, place + 1 - (rate * (at + 0.001)) / 1000 - furthestBehind - burst)
  }
  return Math.max(0, Math.ceil(most - ROUNDING))
}

/** Times since 1970 times a rate leave so much to the last digits. */
const ROUNDING = 1e-3

/** The most grants within any second. */
export function mostInASecond(grantsMs: readonly number[]): number {
  const sorted = grantsMs.toSorted((a, b) => a - b)
  let most = 0
  let from = 0
  for (const [to, last] of sorted.entries()) {
    while (last - (sorted[from] ?? 0) >= 1_000) from += 1
    most = Math.max(most, to - from + 1)
  }
  return most
}

/** How much of what is allowed between the first grant and the last was granted, in percent. */
export function percentUsed(grantsMs: readonly number[], rate: number, burst: number): number {
  const spanMs = Math.max(...grantsMs) - Math.min(...grantsMs)
  return (100 * grantsMs.length) / (burst + (rate * spanMs) / 1000)
}
