import type { Notes } from '../../kernel/codec/notes.js'
import { toPointer } from '../../kernel/validation/json-path.js'
import type { Payload } from './state.js'

/** What decisions do with payloads besides passing them on. A codec that encrypts brings its own. */
export interface Payloads {
  /** The JSON text that a condition reads. */
  reveal(payload: Payload): string
  /** One object that has each part under its name: the output of a join. */
  combine(parts: readonly (readonly [name: string, payload: Payload])[]): Payload
}

/** For codecs that store plain JSON with notes beside it, as ours does. Texts are put together, so no digit is lost. */
export const plainPayloads: Payloads = {
  reveal: ({ json }) => json,
  combine(parts) {
    const json = `{${parts.map(([name, payload]) => `${JSON.stringify(name)}:${payload.json}`).join(',')}}`
    const notes: Notes = {}
    for (const [name, payload] of parts) {
      for (const [pointer, type] of Object.entries(payload.notes ?? {})) notes[toPointer([name]) + pointer] = type
    }
    return { json, notes: Object.keys(notes).length === 0 ? null : notes }
  },
}
