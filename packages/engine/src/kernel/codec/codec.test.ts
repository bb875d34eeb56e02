import { deepStrictEqual } from 'node:assert/strict'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { createCodec, roundTrip } from './codec.js'
import { defineType } from './type.js'

class Money {
  readonly amount: string
  readonly currency: string
  constructor(amount: string, currency: string) {
    this.amount = amount
    this.currency = currency
  }
}

const money = defineType({
  name: 'money',
  is: (value): value is Money => value instanceof Money,
  encode: (value) => `${value.amount} ${value.currency}`,
  decode: (json) => {
    const [amount, currency] = json.split(' ')
    if (amount === undefined || currency === undefined) throw new Error('no currency')
    return new Money(amount, currency)
  },
})

const codec = createCodec({ types: [money] })
const when = new Date('2030-01-31T12:00:00.123Z')

describe('K-10 what foreign clients read, and what comes back', () => {
  it.each<[string, unknown, string, Record<string, string> | null]>([
    ['plain JSON', { a: [1, 'x', true, null] }, '{"a":[1,"x",true,null]}', null],
    ['a date', { at: when }, '{"at":"2030-01-31T12:00:00.123Z"}', { '/at': 'date' }],
    ['a bigint', [12345678901234567890n], '["12345678901234567890"]', { '/0': 'bigint' }],
    [
      'a map',
      { m: new Map([['k', when]]) },
      `{"m":[["k","${when.toISOString()}"]]}`,
      { '/m': 'map', '/m/0/1': 'date' },
    ],
    ['a map by objects', new Map([[{ a: 1n }, 2]]), '[[{"a":"1"},2]]', { '': 'map', '/0/0/a': 'bigint' }],
    ['a set', new Set([1, 2n]), '[1,"2"]', { '': 'set', '/1': 'bigint' }],
    ['bytes', { b: new Uint8Array([1, 2, 255]) }, '{"b":"AQL/"}', { '/b': 'bytes' }],
    ['a part of bytes', new Uint8Array([0, 1, 2, 255]).subarray(1), '"AQL/"', { '': 'bytes' }],
    ['a buffer', Buffer.from('hello'), '"aGVsbG8="', { '': 'buffer' }],
    ['a registered type', { total: new Money('10.10', 'EUR') }, '{"total":"10.10 EUR"}', { '/total': 'money' }],
    ['undefined', undefined, 'null', { '': 'undefined' }],
    ['undefined in an array', [1, undefined], '[1,null]', { '/1': 'undefined' }],
    ['minus zero', { n: -0 }, '{"n":0}', { '/n': '-0' }],
    ['odd keys', { 'a/b': { '~1': 1n } }, '{"a/b":{"~1":"1"}}', { '/a~1b/~01': 'bigint' }],
    ['an empty key', { '': 1n }, '{"":"1"}', { '/': 'bigint' }],
    ['an object without prototype', Object.assign(Object.create(null), { a: 1 }), '{"a":1}', null],
  ])('%s', (_, value, json, notes) => {
    expect(codec.encode(value)).toEqual({ json, notes })
    expect(roundTrip(codec, value)).toEqual(value)
  })

  it('leaves out undefined properties, as JSON does', () => {
    deepStrictEqual(roundTrip(codec, { a: undefined, at: when }), { at: when })
  })

  it('reads a hole in an array as undefined', () => {
    deepStrictEqual(roundTrip(codec, holes(2)), [undefined, undefined])
  })

  it('carries plain values of another realm', () => {
    deepStrictEqual(roundTrip(codec, runInNewContext('({ a: [1, { b: 2 }] })')), { a: [1, { b: 2 }] })
  })

  it('writes an object twice that is referred to twice', () => {
    const shared = { at: when }
    deepStrictEqual(roundTrip(codec, [shared, shared]), [{ at: when }, { at: when }])
  })

  it('reads what foreign clients send', () => {
    expect(codec.decode({ json: { at: '2030-01-31' }, notes: null })).toEqual({ at: '2030-01-31' })
  })

  it('changes neither the value nor the JSON it is given', () => {
    const value = deepFreeze({ lines: [{ at: when }], ids: [1n] })
    const { json, notes } = codec.encode(value)
    const parsed = deepFreeze(JSON.parse(json))
    expect(codec.decode({ json: parsed, notes })).toEqual(value)
    expect(codec.decode({ json: parsed, notes })).toEqual(value)
  })
})

describe('K-10 what cannot be stored is refused with its path', () => {
  const circle = { lines: [{ parent: {} }] }
  circle.lines = [{ parent: circle }]
  const roundMap = new Map()
  roundMap.set('self', roundMap)
  class Point {
    x = 1
  }
  class Moment extends Date {}
  class Points extends Array {}

  it.each<[string, unknown, string]>([
    [
      'a function',
      { payment: { lines: [0, 1, 2, { note: () => 1 }] } },
      '$.payment.lines[3].note cannot be stored: it is a function',
    ],
    ['a symbol', { 'odd key': Symbol('x') }, '$["odd key"] cannot be stored: it is a symbol'],
    ['NaN', [Number.NaN], '$[0] cannot be stored: NaN is not a JSON number'],
    ['infinity', { a: Number.NEGATIVE_INFINITY }, '$.a cannot be stored: -Infinity is not a JSON number'],
    ['an invalid date', { at: new Date(Number.NaN) }, '$.at cannot be stored: it is an invalid Date'],
    ['a circle', circle, '$.lines[0].parent cannot be stored: it refers back to $, a circle'],
    ['a circle through a map', { m: roundMap }, '$.m[0][1] cannot be stored: it refers back to $.m, a circle'],
    [
      'a class instance',
      { p: new Point() },
      '$.p cannot be stored: it is an instance of Point: register its type with the codec, or convert it to plain data',
    ],
    ['a subclass of Date', [new Moment()], '$[0] cannot be stored: it is an instance of Moment: '],
    ['a subclass of Array', [new Points()], '$[0] cannot be stored: it is an instance of Points: '],
    ['an error', new Error('x'), '$ cannot be stored: it is an instance of Error: '],
    ['a URL, although it has toJSON', new URL('http://x'), '$ cannot be stored: it is an instance of URL: '],
    ['an object with toJSON', { a: { toJSON: () => 1 } }, '$.a.toJSON cannot be stored: it is a function'],
    ['a boxed text', new String('x'), '$ cannot be stored: it is an instance of String: '],
    ['a promise', { a: Promise.resolve(1) }, '$.a cannot be stored: it is a promise: await it first'],
    [
      '\\u0000',
      { a: ['x\u0000'] },
      '$.a[0] cannot be stored: it contains the character \\u0000, which PostgreSQL cannot hold',
    ],
    [
      '\\u0000 in a key',
      { a: { 'k\u0000': 1 } },
      '$.a["k\\u0000"] cannot be stored: it has a key with the character \\u0000',
    ],
    ['\\u0000 in a map', new Map([['k\u0000', 1]]), '$[0][0] cannot be stored: it contains the character \\u0000'],
    ['half a surrogate pair', { a: '\ud83d' }, '$.a cannot be stored: it contains half of a surrogate pair'],
    ['the other half', { a: '\ude00x' }, '$.a cannot be stored: it contains half of a surrogate pair'],
    [
      'half a pair in a key',
      { '\ud83d': 1 },
      '$["\\ud83d"] cannot be stored: it has a key with half of a surrogate pair',
    ],
  ])('%s', (_, value, message) => {
    expect(() => codec.encode(value)).toThrow(
      expect.objectContaining({ code: 'HF_NOT_ENCODABLE', message: expect.stringContaining(message) }),
    )
  })

  it.each(['😀', '\\u0000', '\u0001', '\\ud83d', 'tab\t'])('but %j is stored', (text) => {
    expect(roundTrip(codec, { [text]: text })).toEqual({ [text]: text })
  })

  it('names the value by the name that the caller gave', () => {
    expect(() => codec.encode({ a: () => 1 }, { at: 'data' })).toThrow('data.a cannot be stored')
  })

  it.each([
    ['objects', (inner: unknown) => ({ a: inner })],
    ['arrays', (inner: unknown) => [inner]],
    ['maps', (inner: unknown) => new Map([['k', inner]])],
  ])('10,000 levels of %s', (_, wrap) => {
    let value: unknown = 1
    for (let level = 0; level < 10_000; level++) value = wrap(value)
    expect(() => codec.encode(value)).toThrow(/cannot be stored: it is nested deeper than 512 levels$/)
  })

  it('but 512 levels are stored', () => {
    let value: unknown = when
    for (let level = 0; level < 512; level++) value = [value]
    deepStrictEqual(roundTrip(codec, value), value)
  })
})

describe('K-10 the size limit', () => {
  const small = createCodec({ maxBytes: 20 })

  it.each<[string, unknown]>([
    ['20 bytes', 'x'.repeat(18)],
    ['20 bytes of two-byte characters', 'é'.repeat(9)],
    ['20 bytes of escapes', '"'.repeat(9)],
  ])('%s are stored', (_, value) => {
    expect(roundTrip(small, value)).toBe(value)
  })

  it.each<[string, unknown, number]>([
    ['text', 'x'.repeat(19), 21],
    ['two-byte characters', 'é'.repeat(10), 22],
    ['escapes', '"'.repeat(10), 22],
    ['notes', [1n, 2n], 38],
  ])('refuses more: %s', (_, value, bytes) => {
    expect(() => small.encode(value, { at: 'data' })).toThrow(
      expect.objectContaining({
        code: 'HF_TOO_LARGE',
        details: expect.objectContaining({ limit: 20, path: 'data' }),
        message: expect.stringMatching(
          new RegExp(`^data is (${bytes}|at least \\d+) bytes as JSON, over the limit of 20$`),
        ),
      }),
    )
  })

  it('is 1 MB unless given', () => {
    expect(createCodec().encode('x'.repeat(1_048_574)).json.length).toBe(1_048_576)
    expect(() => createCodec().encode('x'.repeat(1_048_575))).toThrow(/over the limit of 1048576$/)
  })

  it('stops before a small value that unfolds into a huge one is written', () => {
    let value: unknown = ['x']
    for (let level = 0; level < 100; level++) value = [value, value]
    expect(() => codec.encode(value)).toThrow(expect.objectContaining({ code: 'HF_TOO_LARGE' }))
    expect(() => codec.encode(holes(4_000_000_000))).toThrow(expect.objectContaining({ code: 'HF_TOO_LARGE' }))
  })
})

describe('K-10 __proto__ is a key like any other', () => {
  it.each(['{"__proto__":{"admin":true}}', '{"a":{"__proto__":1}}'])('%s', (json) => {
    const value: unknown = JSON.parse(json)
    expect(codec.encode(value).json).toBe(json)
    expect(JSON.stringify(roundTrip(codec, value))).toBe(json)
  })

  it('also with a note inside, beside or on it', () => {
    const value: unknown = Object.defineProperty({ at: when }, '__proto__', { value: { n: 1n }, enumerable: true })
    const back = roundTrip(codec, value)
    deepStrictEqual(Object.getOwnPropertyDescriptor(back, '__proto__')?.value, { n: 1n })
    deepStrictEqual(Object.getPrototypeOf(back), Object.prototype)
    const direct: unknown = Object.defineProperty({}, '__proto__', { value: when, enumerable: true })
    deepStrictEqual(Object.getOwnPropertyDescriptor(roundTrip(codec, direct), '__proto__')?.value, when)
  })

  it.each(['/__proto__/toString', '/constructor', '/constructor/prototype'])(
    'a note on %s reaches nothing',
    (pointer) => {
      expect(codec.decode({ json: { a: 1 }, notes: { [pointer]: 'undefined' } })).toEqual({ a: 1 })
      expect(typeof Object.prototype.toString).toBe('function')
    },
  )
})

describe('decode', () => {
  it.each<[string, unknown, Record<string, string>, string]>([
    [
      'a type it does not know',
      { a: ['1'] },
      { '/a/0': 'decimal' },
      "$.a[0] cannot be read back: no type 'decimal' is registered",
    ],
    ['no date', { a: 'soon' }, { '/a': 'date' }, "$.a cannot be read back: as 'date': its JSON is not a date"],
    ['a number as date', { a: 1 }, { '/a': 'date' }, "$.a cannot be read back: as 'date': its JSON is not a date"],
    ['no bigint', '1.5', { '': 'bigint' }, "$ cannot be read back: as 'bigint': its JSON is not a whole number"],
    ['no entries', [['k']], { '': 'map' }, "$ cannot be read back: as 'map': its JSON is not an array of entries"],
    ['no array', {}, { '': 'set' }, "$ cannot be read back: as 'set': its JSON is not an array"],
    ['no base64', '%', { '': 'bytes' }, "$ cannot be read back: as 'bytes': its JSON is not base64 text"],
    ['not null', 1, { '': 'undefined' }, "$ cannot be read back: as 'undefined': its JSON is not null"],
    ['not 0', 1, { '': '-0' }, "$ cannot be read back: as '-0': its JSON is not 0"],
    ['what a type refuses', 'x', { '': 'money' }, "$ cannot be read back: as 'money': no currency"],
  ])('refuses %s', (_, json, notes, message) => {
    expect(() => codec.decode({ json, notes })).toThrow(expect.objectContaining({ code: 'HF_NOT_DECODABLE', message }))
  })

  it('ignores notes about values that SQL has removed since', () => {
    const notes = { '/gone': 'date', '/list/7': 'date', '/list/length': 'date', '/text/0': 'date', '/at': 'date' }
    const json = { at: when.toISOString(), list: ['x'], text: 'abc' }
    expect(codec.decode({ json, notes })).toEqual({ at: when, list: ['x'], text: 'abc' })
  })
})

describe('registered types', () => {
  const pointType = (encode: () => never) =>
    createCodec({
      types: [
        defineType({ name: 'p', is: (v): v is Money => v instanceof Money, encode, decode: () => new Money('', '') }),
      ],
    })
  const returning = (json: unknown) => () => json as never

  it.each<[string, () => never]>([
    ['a date', returning({ at: when })],
    ['itself', returning(new Money('1', 'EUR'))],
    ['undefined inside', returning([undefined])],
  ])('are refused when they encode to %s', (_, encode) => {
    expect(() => pointType(encode).encode({ a: new Money('1', 'EUR') })).toThrow(
      /^\$\.a.* cannot be stored: its type 'p' encoded it to something that is not plain JSON$/,
    )
  })

  it('are refused with the cause when they throw', () => {
    const cause = new Error('boom')
    const encode = () => {
      throw cause
    }
    expect(() => pointType(encode).encode([new Money('1', 'EUR')])).toThrow(
      expect.objectContaining({ message: "$[0] cannot be stored: its type 'p' could not encode it: boom", cause }),
    )
  })

  it.each([
    [[money, money], "createCodec: option `types` has two types named 'money'"],
    [[{ ...money, name: 'date' }], "createCodec: option `types` has two types named 'date'"],
    [[{ ...money, name: '' }], 'createCodec: option `types` has a type without a name'],
  ])('must have different names', (types, message) => {
    expect(() => createCodec({ types })).toThrow(message)
  })

  it.each([0, -1, 1.5])('maxBytes %d is refused', (maxBytes) => {
    expect(() => createCodec({ maxBytes })).toThrow(/maxBytes/)
  })
})

function holes(length: number): unknown[] {
  const array: unknown[] = []
  array.length = length
  return array
}

function deepFreeze(value: object): object {
  for (const part of Object.values(value)) {
    if (typeof part === 'object' && part !== null && !(part instanceof Date)) deepFreeze(part)
  }
  return Object.freeze(value)
}

describe('K-13 defineType refuses', () => {
  const whole = { name: 'money', is: () => true, encode: () => '', decode: () => '' }
  it.each([
    ['nothing at all', undefined, 'options'],
    ['null', null, 'options'],
    ['a type without a name', { ...whole, name: '' }, 'name'],
    ['a type without `is`', { ...whole, is: undefined }, 'is'],
    ['an `encode` that is no function', { ...whole, encode: 5 }, 'encode'],
    ['a type without `decode`', { ...whole, decode: undefined }, 'decode'],
  ])('%s', (_, definition, option) => {
    expect(() => defineType(definition as never)).toThrow(
      expect.objectContaining({ code: 'HF_INVALID_OPTION', details: expect.objectContaining({ option }) }),
    )
  })
})
