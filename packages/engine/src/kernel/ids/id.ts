import { HoldfastError } from '../errors.js'
import { describe } from '../validation/describe.js'
import { uuidV7 } from './uuid-v7.js'

// The shape only: callers bring UUIDs of any version, and PostgreSQL holds them all.
const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/**
 * A new id: a UUID v7, so that rows made together lie together in the index.
 *
 * @example
 * const id = newId()
 */
export function newId(): string {
  return uuidV7()
}

/**
 * Whether a text is an id; anything else that names a thing is its key.
 *
 * @example
 * isId('0190163d-8694-739b-aea5-966c26f8ad91')   // true
 * isId('PAY-123')                                // false
 */
export function isId(value: unknown): value is string {
  return typeof value === 'string' && uuid.test(value)
}

/**
 * An id in the one spelling that PostgreSQL returns (lower case), or an error.
 *
 * @example
 * parseId('send: id', '0190163D-8694-739B-AEA5-966C26F8AD91')   // '0190163d-8694-739b-aea5-966c26f8ad91'
 */
export function parseId(where: string, value: unknown): string {
  if (isId(value)) return value.toLowerCase()
  throw new HoldfastError('HF_INVALID_ID', { where, value: describe(value) })
}
