import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import { describe, it } from 'vitest'
import { fromPointer, toPointer } from '../validation/json-path.js'
import { createCodec } from './codec.js'
import { defineType } from './type.js'

class Decimal {
  readonly digits: string
  constructor(digits: string) {
    this.digits = digits
  }
}

const codec = createCodec({
  types: [
    defineType({
      name: 'decimal',
      is: (value): value is Decimal => value instanceof Decimal,
      encode: (value) => value.digits,
      decode: (json) => new Decimal(json),
    }),
  ],
})

// 'binary' is every code point but surrogates; what PostgreSQL cannot hold is not the codec's to carry.
const text = fc.string({ unit: 'binary' }).map((made) => made.replaceAll('\u0000', ''))
const key = fc.oneof(text, fc.constantFrom('__proto__', 'constructor', 'toJSON', '', '0', 'a/b', '~', '~1', 'length'))
const bytes = fc.uint8Array({ maxLength: 20 })

const { value } = fc.letrec((tie) => {
  const part = tie('value')
  return {
    value: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.oneof(text, fc.boolean(), fc.constant(null), fc.integer(), fc.constant(-0)),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.date({ noInvalidDate: true }),
      fc.bigInt(),
      bytes.map((made) => new Uint8Array(made)),
      bytes.map((made) => Buffer.from(made)),
      fc.nat().map((number) => new Decimal(`${number}.10`)),
      fc.array(fc.oneof(part, fc.constant(undefined)), { maxLength: 4 }),
      fc.dictionary(key, part, { maxKeys: 4, noNullPrototype: true }),
      fc.array(fc.tuple(part, part), { maxLength: 3 }).map((entries) => new Map(entries)),
      fc.array(part, { maxLength: 3 }).map((members) => new Set(members)),
    ),
  }
})

/** What a jsonb column does to an object: shorter keys first, then by their bytes. */
function reorder(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(reorder)
  if (typeof json !== 'object' || json === null) return json
  const entries = Object.entries(json).map(([name, part]): [string, unknown] => [name, reorder(part)])
  const byLength = (a: string, b: string) =>
    Buffer.byteLength(a) - Buffer.byteLength(b) || Buffer.compare(Buffer.from(a), Buffer.from(b))
  return Object.fromEntries(entries.sort(([a], [b]) => byLength(a, b)))
}

const reorderNotes = (notes: Record<string, string> | null) =>
  notes === null ? null : Object.fromEntries(Object.entries(notes).sort(([a], [b]) => a.length - b.length))

describe('codec, with generated values', () => {
  it('K-10 every value comes back the same', () => {
    fc.assert(
      fc.property(value, (original) => {
        const { json, notes } = codec.encode(original)
        deepStrictEqual(codec.decode({ json: JSON.parse(json), notes }), original)
      }),
      { numRuns: 1000 },
    )
  })

  it('K-10 also after jsonb has put its keys in another order', () => {
    fc.assert(
      fc.property(value, (original) => {
        const { json, notes } = codec.encode(original)
        deepStrictEqual(codec.decode({ json: reorder(JSON.parse(json)), notes: reorderNotes(notes) }), original)
      }),
      { numRuns: 500 },
    )
  })

  it('K-10 plain JSON needs no notes and is written as JSON.stringify writes it', () => {
    // Through JSON once, which makes 0 of -0; without the texts that are refused.
    const plain = fc
      .json({ stringUnit: 'binary' })
      .filter((json) => !json.includes('\\u0000'))
      .map((json): unknown => JSON.parse(json, (_, part: unknown) => (part === 0 ? 0 : part)))
    fc.assert(
      fc.property(plain, (original) => {
        deepStrictEqual(codec.encode(original), { json: JSON.stringify(original), notes: null })
      }),
      { numRuns: 500 },
    )
  })

  it('a JSON pointer leads back to its keys', () => {
    fc.assert(
      fc.property(fc.array(key), (keys) => {
        deepStrictEqual(fromPointer(toPointer(keys)), keys)
      }),
    )
  })
})
