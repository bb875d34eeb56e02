import { HoldfastError } from '../errors.js'
import { invalidOption } from '../validation/invalid-option.js'
import { checkOptions, integerOption } from '../validation/options.js'
import { builtInTypes } from './built-in-types.js'
import { EncodeWalk } from './encode-walk.js'
import { applyNotes, type Notes } from './notes.js'
import { refuseUnstorableText } from './refuse-text.js'
import type { CodecType } from './type.js'

/** A value on its way into the database. */
export interface Encoded {
  readonly json: string
  readonly notes: Notes | null
}

/** A value as it comes out of the database: the driver has parsed its JSON already. */
export interface Stored {
  readonly json: unknown
  readonly notes: Notes | null
}

/**
 * How values become JSON and come back. Anything with these two methods is a codec: wrap the one that
 * `createCodec` makes in order to encrypt or redact.
 */
export interface Codec {
  /** `at` names the value in errors. Default: `$`. */
  encode(value: unknown, options?: { readonly at?: string }): Encoded
  decode(stored: Stored): unknown
  /** The limit that the installation's SQL functions go by too, when it is opened with this codec. */
  readonly maxBytes?: number
}

export interface CodecOptions {
  readonly types?: readonly CodecType[]
  /** The largest size of one value as JSON, its notes included. Default: 1 MB. */
  readonly maxBytes?: number
}

/**
 * The codec that everything uses unless told otherwise. The JSON is what foreign clients expect (a `Date` is an ISO
 * text, a `bigint` a decimal text, a `Map` an array of entries, a `Set` an array, bytes are base64); with the notes the
 * value comes back as it was. Like JSON it leaves out properties that are undefined or whose keys are symbols, and
 * writes an object twice that is referred to twice. A hole in an array comes back as undefined.
 *
 * @example
 * const codec = createCodec({ types: [decimal] })
 * const { json, notes } = codec.encode({ due: new Date(0) })   // '{"due":"1970-01-01T00:00:00.000Z"}', { '/due': 'date' }
 * codec.decode({ json: JSON.parse(json), notes })              // { due: new Date(0) }
 */
export function createCodec(options: CodecOptions = {}): Codec {
  checkOptions('createCodec', options, ['types', 'maxBytes'])
  const maxBytes = integerOption('createCodec', 'maxBytes', options.maxBytes, { min: 1, default: 1_048_576 })
  const types = options.types ?? []
  const typesByName = byName(types)
  const codec: Codec = {
    encode(value, { at = '$' } = {}) {
      const walk = new EncodeWalk({ at, types, maxBytes })
      const plain = walk.replace(value)
      const json = JSON.stringify(plain)
      refuseUnstorableText(plain, json, at)
      refuseTooLarge(json, walk.notes, maxBytes, at)
      return { json, notes: walk.notes }
    },
    decode({ json, notes }) {
      return notes === null ? json : applyNotes(json, notes, typesByName)
    },
    ...(options.maxBytes === undefined ? {} : { maxBytes }),
  }
  plainCodecs.add(codec)
  return codec
}

const plainCodecs = new WeakSet<Codec>()

/** Whether a codec's JSON is the value itself and not encrypted, as with those that `createCodec` returns. */
export function isPlainCodec(codec: Codec): boolean {
  return plainCodecs.has(codec)
}

/**
 * A live value as it will be after storage: what the first run sees is then what a replay sees.
 *
 * @example
 * roundTrip(createCodec(), { at: new Date(0), note: undefined })   // { at: new Date(0) }
 */
export function roundTrip(codec: Codec, value: unknown): unknown {
  const { json, notes } = codec.encode(value)
  return codec.decode({ json: JSON.parse(json), notes })
}

function byName(types: readonly CodecType[]): ReadonlyMap<string, CodecType> {
  const named = new Map<string, CodecType>()
  for (const type of types) {
    const taken = named.has(type.name) || builtInTypes.has(type.name)
    if (type.name !== '' && !taken) named.set(type.name, type)
    else {
      throw invalidOption(
        'createCodec',
        'types',
        taken ? `has two types named '${type.name}'` : 'has a type without a name',
      )
    }
  }
  return named
}

function refuseTooLarge(json: string, notes: Notes | null, limit: number, path: string): void {
  // No character takes more than 3 bytes per UTF-16 unit, so most values need no counting.
  if (notes === null && json.length * 3 <= limit) return
  const bytes = Buffer.byteLength(json) + (notes === null ? 0 : Buffer.byteLength(JSON.stringify(notes)))
  if (bytes > limit) throw new HoldfastError('HF_TOO_LARGE', { path, bytes, limit })
}
