import { HoldfastError } from '../errors.js'
import { displayPath, type Keys } from '../validation/json-path.js'
import { unstorableIn } from '../validation/storable-text.js'

/**
 * Refuses text that PostgreSQL cannot hold, in values and in keys. `JSON.stringify` writes every such character as
 * `\u….`, which one search over the finished JSON rules out; only where it finds something are the texts looked at one
 * by one. That is several times as fast as looking at each text of every value.
 */
export function refuseUnstorableText(plain: unknown, json: string, at: string): void {
  if (json.includes('\\u')) searchValue(plain, at, [])
}

function searchValue(value: unknown, at: string, keys: Keys): void {
  if (typeof value === 'string') {
    refuse(value, at, keys, 'contains')
  } else if (Array.isArray(value)) {
    for (const [index, part] of value.entries()) searchValue(part, at, [...keys, index])
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, part] of Object.entries(value)) {
      refuse(key, at, [...keys, key], 'has a key with')
      searchValue(part, at, [...keys, key])
    }
  }
}

function refuse(text: string, at: string, keys: Keys, how: string): void {
  const bad = unstorableIn(text)
  if (bad === undefined) return
  const problem = `it ${how} ${bad}, which PostgreSQL cannot hold`
  throw new HoldfastError('HF_NOT_ENCODABLE', { path: displayPath(at, keys), problem })
}
