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
  return equalTo(a)(b)
}

/**
 * Compares many values with one, as `areEqual` does. The one is read as a number once: a list of thousands and a text of
 * thousands of digits would take seconds otherwise.
 */
export function equalTo(value: Value): (other: Value) => boolean | undefined {
  let number: Decimal | undefined | null = null
  const sameNumber = (other: Value): boolean => {
    if (number === null) number = toNumber(value)
    const right = number === undefined ? undefined : toNumber(other)
    return number !== undefined && right !== undefined && compareDecimals(number, right) === 0
  }
  return (other) => {
    if (isCompound(value) || isCompound(other))
      return value.is === 'missing' || other.is === 'missing' ? false : undefined
    if (value.is === 'text') return spells(value.value, other) ?? sameNumber(other)
    if (other.is === 'text') return spells(other.value, value) ?? sameNumber(other)
    return sameNumber(other)
  }
}

const isCompound = (value: Value): boolean => value.is === 'list' || value.is === 'object'

/** Whether a text is the same as another value without being read as a number; nothing where that has to be asked. */
function spells(text: string, value: Value): boolean | undefined {
  if (value.is === 'text') return value.value === text
  if (value.is === 'missing') return text === ''
  return value.is === 'boolean' && text === String(value.value) ? true : undefined
}
