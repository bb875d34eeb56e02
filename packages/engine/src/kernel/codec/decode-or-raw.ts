import type { Codec } from './codec.js'
import type { Notes } from './notes.js'

/**
 * For showing: a value that this process cannot decode (another's registered type, a foreign client's notes) is shown as
 * the JSON that it is, so that one of them never hides the rest of a list.
 */
export function decodeOrRaw(codec: Codec, json: unknown, notes: Notes | null): unknown {
  try {
    return codec.decode({ json, notes })
  } catch {
    return json
  }
}
