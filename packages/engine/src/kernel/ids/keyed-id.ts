import { createHash } from 'node:crypto'

/**
 * The id of a thing that has a key and no row to look the key up in. `holdfast.keyed_id` derives the same one in SQL, which has
 * SHA-256 and not the SHA-1 of `derivedId`. A UUID of version 8: made by a rule of our own.
 *
 * @example
 * keyedId('command', 'payments', 'BookRisk', 'PAY-1')   // '0d0b0a4c-…'
 */
export function keyedId(model: string, domain: string, type: string, key: string): string {
  const name = JSON.stringify([model, domain, type, key])
  const hex = createHash('sha256').update(name).digest('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    '-',
  )
}
