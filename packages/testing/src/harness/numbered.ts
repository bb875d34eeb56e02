/**
 * Names that differ, for tests that share a database.
 *
 * @example
 * const domain = numbered('waits')
 * domain() // 'waits-1'
 */
export function numbered(prefix: string): () => string {
  let count = 0
  return () => {
    count += 1
    return `${prefix}-${count}`
  }
}
