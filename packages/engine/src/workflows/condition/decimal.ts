/** A number exactly as it was written: 0.`digits` × 10^`exponent`. Neither end of the digits is a zero; zero has none. */
export interface Decimal {
  readonly sign: -1 | 0 | 1
  readonly digits: string
  readonly exponent: bigint
}

const shape = /^([+-]?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?)0*(\d+))?$/

/** Reading a longer exponent would take longer than its length; PostgreSQL's own numbers have six digits there. */
const LONGEST_EXPONENT = 15

/**
 * The number that a text is, or nothing when it is none. Floats would make 0.1 + 0.2 of it, and 9007199254740993 equal to
 * its neighbour; amounts of money are compared here.
 *
 * @example
 * parseDecimal('-12.50')   // { sign: -1, digits: '125', exponent: 2n }
 * parseDecimal('12 EUR')   // undefined
 */
export function parseDecimal(text: string): Decimal | undefined {
  const [, sign, whole, fraction = '', powerSign = '', power = '0'] = shape.exec(text) ?? []
  if (whole === undefined || power.length > LONGEST_EXPONENT) return undefined
  const written = whole + fraction
  let start = 0
  let end = written.length
  while (written[start] === '0') start += 1
  while (end > start && written[end - 1] === '0') end -= 1
  if (start === end) return { sign: 0, digits: '', exponent: 0n }
  return {
    sign: sign === '-' ? -1 : 1,
    digits: written.slice(start, end),
    exponent: BigInt(whole.length - start) + BigInt(`${powerSign}${power}`),
  }
}

/** Less than zero, zero, or more, as `a` is less than, equal to, or more than `b`; whatever their size. */
export function compareDecimals(a: Decimal, b: Decimal): number {
  if (a.sign !== b.sign) return a.sign - b.sign
  return a.sign * compareMagnitudes(a, b)
}

function compareMagnitudes(a: Decimal, b: Decimal): number {
  if (a.exponent !== b.exponent) return a.exponent < b.exponent ? -1 : 1
  // Both begin right after the point, so the order of the texts is the order of the numbers.
  if (a.digits === b.digits) return 0
  return a.digits < b.digits ? -1 : 1
}
