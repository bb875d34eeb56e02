import { createHash } from 'node:crypto'

/** The namespace of our derived ids. */
const NAMESPACE = Buffer.from('6f1c9a2e5b7d4c3f8a90b1c2d3e4f506', 'hex')

/**
 * A UUID v5: the same parts give the same id, on every machine and after every crash. The first part says what the id is for;
 * the parts are joined as JSON, so that no two different lists give the same id.
 *
 * @example
 * derivedId('process command', processId, generation, name, occurrence)
 */
export function derivedId(purpose: string, ...parts: readonly (string | number)[]): string {
  const name = JSON.stringify([purpose, ...parts])
  const bytes = createHash('sha1').update(NAMESPACE).update(name).digest().subarray(0, 16)
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x50
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
