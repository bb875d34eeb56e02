import type { Faults } from './faults.js'

/** Counts the statements of a database by name. */
export function countStatements(): {
  readonly faults: Faults
  readonly counts: ReadonlyMap<string, number>
  total(): number
} {
  const counts = new Map<string, number>()
  return {
    counts,
    faults: (point) => {
      if (point.startsWith('after ')) counts.set(point.slice(6), (counts.get(point.slice(6)) ?? 0) + 1)
    },
    total: () => [...counts.values()].reduce((sum, count) => sum + count, 0),
  }
}
