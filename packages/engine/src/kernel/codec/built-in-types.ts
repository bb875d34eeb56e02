/** The names that notes give to what the codec carries by itself. They are stored: never change one. */
export type BuiltInName = 'undefined' | '-0' | 'bigint' | 'date' | 'map' | 'set' | 'bytes' | 'buffer'

/** A thrown text says what was found instead; the caller knows the path and makes the error of it. */
type Decode = (json: unknown) => unknown

const wrong = (expected: string): never => {
  throw new TypeError(`its JSON is not ${expected}`)
}

const decimalDigits = /^-?\d+$/
const base64 = /^[A-Za-z0-9+/]*={0,2}$/

function decodeDate(json: unknown): Date {
  const date = new Date(typeof json === 'string' ? json : Number.NaN)
  return Number.isNaN(date.getTime()) ? wrong('a date') : date
}

function decodeBytes(json: unknown): Buffer {
  return typeof json === 'string' && base64.test(json) ? Buffer.from(json, 'base64') : wrong('base64 text')
}

const isEntry = (value: unknown): value is [unknown, unknown] => Array.isArray(value) && value.length === 2

const decoders: Record<BuiltInName, Decode> = {
  undefined: (json) => (json === null ? undefined : wrong('null')),
  '-0': (json) => (json === 0 ? -0 : wrong('0')),
  bigint: (json) => (typeof json === 'string' && decimalDigits.test(json) ? BigInt(json) : wrong('a whole number')),
  date: decodeDate,
  map: (json) => (Array.isArray(json) && json.every(isEntry) ? new Map(json) : wrong('an array of entries')),
  set: (json) => (Array.isArray(json) ? new Set(json) : wrong('an array')),
  bytes: (json) => new Uint8Array(decodeBytes(json)),
  buffer: decodeBytes,
}

export const builtInTypes: ReadonlyMap<string, { readonly decode: Decode }> = new Map(
  Object.entries(decoders).map(([name, decode]) => [name, { decode }]),
)
