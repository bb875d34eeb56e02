import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { HoldfastError } from '../../kernel/errors.js'
import { parseCondition } from './condition.js'
import { compareDecimals, parseDecimal } from './decimal.js'
import { includes } from './includes.js'

const ours = ['HF_INVALID_CONDITION', 'HF_CONDITION_UNEVALUABLE']

/** True, false, or the code of our error; anything else is thrown on. */
function outcome(expression: string, input: string): boolean | string {
  try {
    return parseCondition(expression).test({ input, instanceId: 'i', stepName: 's' })
  } catch (error) {
    if (error instanceof HoldfastError && ours.includes(error.code)) return error.code
    throw error
  }
}

const key = fc.oneof(fc.constantFrom('a', 'b', '__proto__', 'constructor', 'toString'), fc.string({ unit: 'binary' }))
const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom(null, true, false, 0, 1, -1, 42, '42', '', 'x', '1e400'),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.string({ unit: 'binary' }),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(key, tie('value'), { maxKeys: 4 }),
  ),
}))
const input = value.map((made) => JSON.stringify(made))

const { expression } = fc.letrec<{ expression: string; operand: string }>((tie) => ({
  operand: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(
      '.a',
      '.b',
      '.a.b',
      '.',
      '.__proto__',
      '.constructor.prototype',
      '.instance_id',
      'true',
      'nil',
      '42',
    ),
    fc.string().map((text) => JSON.stringify(text)),
    tie('expression').map((inner) => `(${inner})`),
  ),
  expression: fc.oneof(
    { depthSize: 'small' },
    tie('operand'),
    fc
      .tuple(
        fc.constantFrom('eq', 'ne', 'gt', 'lt', 'ge', 'le', 'and', 'or', 'contains', 'hasPrefix', 'hasSuffix'),
        tie('operand'),
        tie('operand'),
      )
      .map((parts) => parts.join(' ')),
    tie('operand').map((operand) => `not ${operand}`),
  ),
}))

describe('W-06 conditions, generated', () => {
  it('never fail with anything but our errors, whatever the text', () => {
    const alphabet = fc.constantFrom('\u{1F600}', ...'{{}}()..""``\\abgteqnot_0159eE+-|$\'=\n'.split(''))
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({ unit: alphabet }).map((made) => `{{ ${made} }}`),
    )
    fc.assert(
      fc.property(text, input, (made, data) => {
        expect(outcome(made, data)).toBeDefined()
      }),
      { numRuns: 3000 },
    )
  })

  it('well-formed conditions have a result, or are unevaluable, and always the same', () => {
    fc.assert(
      fc.property(expression, input, (made, data) => {
        const answer = outcome(`{{ ${made} }}`, data)
        expect(answer).not.toBe('HF_INVALID_CONDITION')
        expect(outcome(`{{ ${made} }}`, data)).toBe(answer)
      }),
      { numRuns: 2000 },
    )
  })

  it('never run JavaScript, nor reach what every object inherits', () => {
    const before = Object.getOwnPropertyNames(Object.prototype)
    fc.assert(
      fc.property(expression, (made) => {
        outcome(`{{ ${made} }}`, '{"a": {"b": 1}}')
        for (const inherited of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf']) {
          expect(outcome(`{{ .${inherited} }}`, '{}')).toBe(false)
          expect(outcome(`{{ .a.${inherited} }}`, '{"a": {}}')).toBe(false)
        }
      }),
    )
    expect(Object.getOwnPropertyNames(Object.prototype)).toEqual(before)
  })

  it('negate and mirror each other', () => {
    fc.assert(
      fc.property(value, value, (a, b) => {
        const data = JSON.stringify({ a, b })
        const eq = outcome('{{ eq .a .b }}', data)
        expect(outcome('{{ eq .b .a }}', data)).toBe(eq)
        if (typeof eq === 'boolean') expect(outcome('{{ ne .a .b }}', data)).toBe(!eq)
        const less = outcome('{{ lt .a .b }}', data)
        expect(outcome('{{ gt .b .a }}', data)).toBe(less)
        if (typeof less === 'boolean') expect(outcome('{{ ge .a .b }}', data)).toBe(!less)
      }),
      { numRuns: 1000 },
    )
  })

  it('K-27 find a part in a text as the language itself does, however similar they are', () => {
    const alike = fc.string({ unit: fc.constantFrom('a', 'a', 'a', 'b'), maxLength: 400 })
    fc.assert(
      fc.property(alike, fc.nat(400), fc.nat(200), alike, (text, from, length, other) => {
        const part = `${text.slice(from, from + length)}${other.slice(0, length % 3)}`
        expect(includes(text, part)).toBe(text.includes(part))
        expect(includes(text, other)).toBe(text.includes(other))
      }),
      { numRuns: 2000 },
    )
  })

  it('find a part whose beginnings come again and again, and none whose first letter is missing', () => {
    const piece = fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 1, maxLength: 7 })
    fc.assert(
      fc.property(piece, piece, piece, fc.integer({ min: 65, max: 90 }), (again, end, between, length) => {
        const part = `${again.repeat(length).slice(0, length)}${end}`
        const text = `${again.repeat(length)}${between}${part}`
        expect(includes(text, part)).toBe(true)
        expect(includes(text.slice(0, -1), part)).toBe(text.slice(0, -1).includes(part))
        expect(includes(`${part.slice(1)}${'c'.repeat(5)}`, `c${part.slice(1)}`)).toBe(false)
      }),
      { numRuns: 2000 },
    )
  })

  it('take a deeply nested input', () => {
    const deep = `{"a": ${'['.repeat(200_000)}${']'.repeat(200_000)}}`
    expect(outcome('{{ .a }}', deep)).toBe(true)
  })
})

describe('decimals, against whole numbers of any size', () => {
  it('compare as they should, however they are written', () => {
    const scale = fc.nat({ max: 40 })
    fc.assert(
      fc.property(fc.bigInt(), fc.bigInt(), scale, scale, (a, b, shiftA, shiftB) => {
        const left = parseDecimal(`${a}e-${shiftA}`)
        const right = parseDecimal(pointed(b, shiftB))
        if (left === undefined || right === undefined) throw new Error('both are numbers')
        const [x, y] = [a * 10n ** BigInt(shiftB), b * 10n ** BigInt(shiftA)]
        expect(Math.sign(compareDecimals(left, right))).toBe(x === y ? 0 : x < y ? -1 : 1)
      }),
      { numRuns: 2000 },
    )
  })
})

/** The same number with a decimal point: 1234 shifted by 2 is 12.34. */
function pointed(number: bigint, shift: number): string {
  const digits = String(number < 0n ? -number : number).padStart(shift + 1, '0')
  const fraction = shift === 0 ? '' : `.${digits.slice(-shift)}`
  return `${number < 0n ? '-' : ''}${digits.slice(0, digits.length - shift)}${fraction}`
}
