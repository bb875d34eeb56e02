/**
 * The known name that a caller who wrote `name` most likely meant, or nothing when none is near enough. A third of the
 * letters may be wrong: with more, the guess makes no sense.
 *
 * @example
 * nearestName('concurency', ['concurrency', 'lease'])   // 'concurrency'
 * nearestName('banana', ['concurrency', 'lease'])       // undefined
 */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  let nearest: string | undefined
  let least = Math.max(1, Math.floor(name.length / 3)) + 1
  for (const candidate of known) {
    // The distance is at least the difference in length: skips the work, and names of absurd length.
    if (Math.abs(candidate.length - name.length) >= least) continue
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase())
    if (distance < least) {
      least = distance
      nearest = candidate
    }
  }
  return nearest
}

/** Damerau-Levenshtein in its "optimal string alignment" form: a swap of two neighbours is one mistake, not two. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const substitution = (last[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1)
      let cost = Math.min(substitution, (last[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1)
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      if (swapped) cost = Math.min(cost, (beforeLast[column - 2] ?? 0) + 1)
      current.push(cost)
    }
    beforeLast = last
    last = current
  }
  return last[b.length] ?? 0
}
