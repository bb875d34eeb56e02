/**
 * A result for people, with as many digits as say something.
 *
 * @example
 * figure(33018.4)   // '33,018'
 * figure(2.8071)    // '2.81'
 */
export function figure(value: number): string {
  const digits = value >= 100 ? 0 : value >= 1 ? 2 : 3
  return value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}
