/**
 * The value below or at which this part of all values lies (nearest rank). NaN for none.
 *
 * @example
 * percentile([5, 1, 3, 2, 4], 0.95)   // 5
 */
export function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? Number.NaN
}
