/** Deeper than this a write is configuration, not payload: payloads are encoded texts near the top. */
const DEPTH = 4

/**
 * About how many bytes a write is on its way to the database: the lengths of its texts. Not exact (a letter may be three
 * bytes); it bounds a flush, and is asked for every write.
 */
export function roughSize(value: unknown, depth = DEPTH): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null || depth === 0) return 8
  if (value instanceof Uint8Array) return value.byteLength
  let size = 0
  for (const name in value) size += name.length + roughSize((value as Record<string, unknown>)[name], depth - 1)
  return size
}
