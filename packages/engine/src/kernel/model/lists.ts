import { invalidOption } from '../validation/invalid-option.js'

/** Whether a call was given a list, or one thing by itself. */
export function isList<Item>(given: Item | readonly Item[]): given is readonly Item[] {
  return Array.isArray(given)
}

/** A list in chunks: a statement that takes all of a long list would hold its locks for too long. */
export function* chunksOf<Item>(items: readonly Item[], size: number): Generator<readonly Item[]> {
  for (let from = 0; from < items.length; from += size) yield items.slice(from, from + size)
}

/** Refuses an empty list, and one that names the same work twice: the second of two with one id or key would be lost. */
export function checkMany(where: string, option: string, items: unknown): void {
  if (!Array.isArray(items) || items.length === 0)
    throw invalidOption(where, option, 'must be a list that is not empty')
  for (const name of ['id', 'key']) {
    const seen = new Map<unknown, number>()
    for (const [place, item] of items.entries()) {
      const given = (item as Readonly<Record<string, unknown>> | null | undefined)?.[name]
      const value = name === 'id' && typeof given === 'string' ? given.toLowerCase() : given
      const before = value === undefined ? undefined : seen.get(value)
      if (before !== undefined) {
        throw invalidOption(where, `${option}[${place}].${name}`, `is that of ${option}[${before}]: name each once`)
      }
      seen.set(value, place)
    }
  }
}
