import { HoldfastError } from '../errors.js'
import { describe } from '../validation/describe.js'

/** How long: milliseconds, a text such as `'5s'`, `'10m'`, `'2h'` (also `ms` and `d`), or ISO-8601 such as `'PT1H'`. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}` | `P${string}`

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

/** A hundred years. What is longer is a mistake in the unit, and would leave the range of a `Date` when added to one. */
const longest = 36_500 * day

/** The longest time that an option of ours lets a timer wait: timers of JavaScript fire at once beyond 2^31 milliseconds. */
export const LONGEST_TIMER = '24d' satisfies Duration
/** The same limit for code that computes how long to wait. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1

const units = new Map([
  ['ms', 1],
  ['s', second],
  ['m', minute],
  ['h', hour],
  ['d', day],
])

const short = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/
const isoNumber = String.raw`(\d+(?:[.,]\d+)?)`
const iso = new RegExp(
  `^P(?=.)(?:${isoNumber}W)?(?:${isoNumber}D)?(?:T(?=.)(?:${isoNumber}H)?(?:${isoNumber}M)?(?:${isoNumber}S)?)?$`,
)
const isoUnits = [7 * day, day, hour, minute, second]
/** Years or months before the `T`: how long they are depends on the date they are counted from. */
const calendar = /^P[^T]*[YM]/

/**
 * A duration in whole milliseconds (fractions of one are rounded). A day is 24 hours.
 *
 * @example
 * toMilliseconds('1.5s')   // 1500
 * toMilliseconds('PT1H')   // 3600000
 */
export function toMilliseconds(value: Duration): number {
  return parseDuration(value)
}

/** The same for a value of unknown type; `at` says whose duration it is, for the message when it is refused. */
export function parseDuration(value: unknown, at?: string): number {
  const known = typeof value === 'string' ? parsed.get(value) : undefined
  if (known !== undefined) return known
  const milliseconds = typeof value === 'number' ? value : typeof value === 'string' ? parse(value) : undefined
  const problem = problemOf(value, milliseconds)
  if (milliseconds === undefined || Number.isNaN(milliseconds) || problem !== undefined) {
    throw new HoldfastError('HF_INVALID_DURATION', {
      value: describe(value),
      ...(at === undefined ? {} : { at }),
      ...(problem === undefined ? {} : { problem }),
    })
  }
  const rounded = Math.round(milliseconds)
  if (typeof value === 'string' && parsed.size < MOST_PARSED) parsed.set(value, rounded)
  return rounded
}

/** Texts that were parsed before: options of steps are checked each time a step is called. */
const parsed = new Map<string, number>()
const MOST_PARSED = 1_000

function parse(text: string): number | undefined {
  const [, amount, unit] = short.exec(text) ?? []
  if (amount !== undefined && unit !== undefined) return Number(amount) * (units.get(unit) ?? Number.NaN)
  const parts = iso.exec(text)
  if (parts === null) return undefined
  return isoUnits.reduce((sum, size, index) => sum + size * Number((parts[index + 1] ?? '0').replace(',', '.')), 0)
}

function problemOf(value: unknown, milliseconds: number | undefined): string | undefined {
  if (typeof value === 'string' && calendar.test(value)) {
    return 'months and years differ in length; give days or hours'
  }
  if (typeof value === 'string' && /^-|^P.*-/.test(value)) return 'it is negative'
  if (milliseconds === undefined) return undefined
  if (milliseconds < 0) return 'it is negative'
  return milliseconds > longest ? 'it is longer than 100 years' : undefined
}

/**
 * A duration as people read it, for messages.
 *
 * @example
 * formatDuration(5_400_000)   // '1 h 30 min'
 */
export function formatDuration(milliseconds: number): string {
  let rest = Math.round(milliseconds)
  if (!Number.isFinite(rest) || rest <= 0) return `${rest} ms`
  const parts: string[] = []
  for (const [size, name] of readable) {
    const count = Math.floor(rest / size)
    if (count > 0) parts.push(`${count} ${name}`)
    rest %= size
  }
  return parts.join(' ')
}

const readable = [
  [day, 'd'],
  [hour, 'h'],
  [minute, 'min'],
  [second, 's'],
  [1, 'ms'],
] as const
