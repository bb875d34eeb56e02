import { checkOptions, functionOption, textOption } from '../validation/options.js'

/** A JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

/** A type that the codec carries besides its own; made with `defineType`. */
export interface CodecType {
  readonly name: string
  /** The value as plain JSON, or undefined when it is not of this type. */
  encode(value: unknown): Json | undefined
  decode(json: unknown): unknown
}

/**
 * Lets values of a class survive storage. They are stored as the plain JSON that `encode` gives, which SQL and foreign
 * clients read; a note beside it brings the class back. `is` is asked about class instances only, never about plain
 * objects, arrays or primitives.
 *
 * @example
 * const decimal = defineType({
 *   name: 'decimal',
 *   is: (value): value is Decimal => value instanceof Decimal,
 *   encode: (value) => value.toFixed(),
 *   decode: (json) => new Decimal(json),
 * })
 */
export function defineType<Value, Stored extends Json>(definition: {
  readonly name: string
  readonly is: (value: unknown) => value is Value
  readonly encode: (value: Value) => Stored
  readonly decode: (json: Stored) => Value
}): CodecType {
  const where = 'defineType'
  const given = checkOptions(where, definition ?? null, ['name', 'is', 'encode', 'decode'])
  textOption(where, 'name', given.name)
  for (const part of ['is', 'encode', 'decode'] as const) functionOption(where, part, given[part])
  const { name, is, encode, decode } = definition
  return {
    name,
    encode: (value) => (is(value) ? encode(value) : undefined),
    // The note of this name stands only beside JSON that `encode` made; `decode` fails on anything else, as it must.
    decode: (json) => decode(json as Stored),
  }
}
