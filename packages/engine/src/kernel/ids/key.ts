import { HoldfastError } from '../errors.js'
import { describe } from '../validation/describe.js'
import { unstorableIn } from '../validation/storable-text.js'
import { isId } from './id.js'

/** At 3 bytes each this stays below the 2,704 bytes that a row of a btree index can hold. */
const longest = 512

/**
 * A caller's own name for a thing, checked. It is accepted wherever an id is, so it must not look like one.
 *
 * @example
 * checkKey('start', 'PAY-123')   // 'PAY-123'
 */
export function checkKey(where: string, key: unknown): string {
  if (typeof key !== 'string') throw invalid(where, `must be a text, not ${describe(key)}`)
  if (key === '') throw invalid(where, 'must not be empty')
  if (key.length > longest) throw invalid(where, `must have at most ${longest} characters, not ${key.length}`)
  const bad = unstorableIn(key)
  if (bad !== undefined) throw invalid(where, `contains ${bad}, which PostgreSQL cannot hold`)
  if (isId(key)) throw invalid(where, `'${key}' looks like a UUID and would be taken for an id; give it as the id`)
  return key
}

function invalid(where: string, problem: string): HoldfastError<'HF_INVALID_KEY'> {
  return new HoldfastError('HF_INVALID_KEY', { where, problem })
}
