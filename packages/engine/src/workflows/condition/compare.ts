import { compareDecimals, type Decimal, parseDecimal } from './decimal.js'
import type { Value } from './value.js'

const zero: Decimal = { sign: 0, digits: '', exponent: 0n }
const one: Decimal = { sign: 1, digits: '1', exponent: 1n }

/** The number that a value stands for: nothing is 0, true is 1, `"42"` is 42; or nothing at all. */
export function toNumber(value: Value): Decimal | undefined {
  switch (value.is) {
    case 'missing':
      return zero
    case 'boolean':
      return value.value ? one : zero
    case 'number':
      return value.value
    case 'text':
      return parseDecimal(value.value)
    default:
      return undefined
  }
}

/**
 * Whether two values are equal, or nothing where they cannot be compared (lists and objects). Two texts are equal when
 * they are the same; a text beside something else counts as the number, or the `true` or `false`, that it spells.
 */
export function areEqual(a: Value, b: Value): boolean | undefined {
  if (isCompound(a) || isCompound(b)) return a.is === 'missing' || b.is === 'missing' ? false : undefined
  if (a.is === 'text') return equalsText(b, a.value)
  if (b.is === 'text') return equalsText(a, b.value)
  return equalAsNumbers(a, b)
}

const isCompound = (value: Value): boolean => value.is === 'list' || value.is === 'object'

function equalsText(value: Value, text: string): boolean {
  if (value.is === 'text') return value.value === text
  if (value.is === 'missing') return text === ''
  if (value.is === 'boolean' && text === String(value.value)) return true
  return equalAsNumbers(value, { is: 'text', value: text })
}

function equalAsNumbers(a: Value, b: Value): boolean {
  const [left, right] = [toNumber(a), toNumber(b)]
  return left !== undefined && right !== undefined && compareDecimals(left, right) === 0
}
