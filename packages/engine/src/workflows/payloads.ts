import { type Codec, createCodec, isPlainCodec } from '../kernel/codec/codec.js'
import { HoldfastError } from '../kernel/errors.js'
import { type Payloads, plainPayloads } from './decide/payloads.js'
import type { Payload } from './decide/state.js'

/** How conditions look into payloads and joins put them together, with the codec in use. */
export function payloadsOf(codec: Codec): Payloads {
  if (isPlainCodec(codec)) return plainPayloads
  // One that encrypts, or otherwise changes what is stored: its values are seen through it.
  const plain = createCodec({ maxBytes: Number.MAX_SAFE_INTEGER })
  const open = ({ json, notes }: Payload): unknown => {
    try {
      return codec.decode({ json: JSON.parse(json), notes })
    } catch (error) {
      if (error instanceof HoldfastError) throw error
      // Its own error: a failure of the step that needs the value, not of the engine.
      const problem = error instanceof Error ? error.message : String(error)
      throw new HoldfastError('HF_NOT_DECODABLE', { path: 'input', problem }, { cause: error })
    }
  }
  return {
    reveal: (payload) => plain.encode(open(payload)).json,
    combine: (parts) => codec.encode(Object.fromEntries(parts.map(([name, payload]) => [name, open(payload)]))),
  }
}
