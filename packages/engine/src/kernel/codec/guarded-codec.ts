import { HoldfastError } from '../errors.js'
import { type Codec, type Encoded, isPlainCodec } from './codec.js'
import { refuseUnstorableText } from './refuse-text.js'

/**
 * A codec of the user's, held to what ours does: what it makes is checked to be JSON that PostgreSQL can hold, before anything
 * is sent, so that a result is refused after one call instead of failing the write again and again. What it throws when it decodes (a
 * missing key, a damaged value) is an error of the registry, which every model takes for permanent.
 */
export function guardedCodec(codec: Codec): Codec {
  if (isPlainCodec(codec)) return codec
  return {
    encode(value, options) {
      const encoded = codec.encode(value, options)
      // A codec without types may return anything.
      refuseBadJson((encoded as Encoded | undefined)?.json, options?.at ?? '$')
      return encoded
    },
    decode(stored) {
      try {
        return codec.decode(stored)
      } catch (error) {
        if (error instanceof HoldfastError) throw error
        throw new HoldfastError('HF_NOT_DECODABLE', { path: '$', problem: problemOf(error) }, { cause: error })
      }
    },
    ...(codec.maxBytes === undefined ? {} : { maxBytes: codec.maxBytes }),
  }
}

function refuseBadJson(json: unknown, at: string): void {
  try {
    if (typeof json !== 'string') throw new TypeError('it is no text')
    refuseUnstorableText(JSON.parse(json), json, at)
  } catch (error) {
    if (error instanceof HoldfastError) throw error
    const problem = `the codec made something that is not JSON (${problemOf(error)})`
    throw new HoldfastError('HF_NOT_ENCODABLE', { path: at, problem }, { cause: error })
  }
}

const problemOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
