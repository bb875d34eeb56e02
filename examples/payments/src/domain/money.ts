import { Decimal } from 'decimal.js'
import { type Currency, currencies } from './currency.js'

/** An exact amount: a decimal as text, with all the digits of its currency. `10.10` stays `10.10`; no floats. */
export interface Money {
  readonly amount: string
  readonly currency: Currency
}

const Exact = Decimal.clone({ precision: 40, rounding: Decimal.ROUND_HALF_EVEN })
const shape = /^-?\d{1,15}(?:\.(\d+))?$/

/**
 * Why a text is not a valid amount of a currency; undefined if it is.
 *
 * @example
 * amountProblem('10.105', 'EUR') // 'has 3 digits after the point, and EUR has 2'
 */
export function amountProblem(amount: string, currency: Currency): string | undefined {
  const parts = shape.exec(amount)
  if (!parts) return 'must be a decimal number, such as "10.10"'
  const digits = parts[1]?.length ?? 0
  if (digits > currencies[currency]) {
    return `has ${digits} digits after the point, and ${currency} has ${currencies[currency]}`
  }
  return new Exact(amount).greaterThan(0) ? undefined : 'must be greater than 0'
}

/** The amount with exactly the digits of its currency: `10.1` EUR is `10.10`. */
export function money(amount: string, currency: Currency): Money {
  return { amount: new Exact(amount).toFixed(currencies[currency]), currency }
}

/** At a rate; rounded half to even to the digits of the other currency. */
export function convert({ amount }: Money, rate: string, to: Currency): Money {
  return money(new Exact(amount).times(rate).toFixed(currencies[to], Decimal.ROUND_HALF_EVEN), to)
}

export function isAtLeast({ amount }: Money, limit: string): boolean {
  return new Exact(amount).greaterThanOrEqualTo(limit)
}
