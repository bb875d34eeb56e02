/** Whether a call was given a list, or one thing by itself. */
export function isList<Item>(given: Item | readonly Item[]): given is readonly Item[] {
  return Array.isArray(given)
}

/** A list in chunks: a statement that takes all of a long list would hold its locks for too long. */
export function* chunksOf<Item>(items: readonly Item[], size: number): Generator<readonly Item[]> {
  for (let from = 0; from < items.length; from += size) yield items.slice(from, from + size)
}
