import { declareOptions, integer, number, required, text } from '../kernel/validation/declared.js'
import { invalidOption } from '../kernel/validation/invalid-option.js'
import { textOption } from '../kernel/validation/options.js'

/** What a rate limit allows. */
export interface RateLimitOptions {
  /** Fractions are allowed: 0.5 is one every two seconds. */
  readonly ticketsPerSecond: number
  /** How many may come at once after a quiet time. Default: as many as in one second, at least 1. */
  readonly burst?: number
  /** Shown to operators: what the limit is for. */
  readonly description?: string
}

export interface CheckedLimit {
  readonly ticketsPerSecond: number
  readonly burst: number | null
  readonly description: string | null
}

// The bounds are those of the table's constraints.
const LONGEST_KEY = 200
const SLOWEST = 1e-6
const FASTEST = 1e9
const LARGEST_BURST = 1e9
const LONGEST_FILL_SECONDS = 1e9

/** The name of what is limited, checked. */
export function checkLimitKey(where: string, key: unknown): string {
  return textOption(where, 'key', key, { max: LONGEST_KEY })
}

export function checkLimit(where: string, options: unknown): CheckedLimit {
  const { ticketsPerSecond, burst, description = null } = checkOptionsOfLimit(where, options ?? {})
  if (burst !== undefined && burst / ticketsPerSecond > LONGEST_FILL_SECONDS) {
    throw invalidOption(where, 'burst', 'is so large that it takes more than 30 years to fill at this rate')
  }
  return { ticketsPerSecond, burst: burst ?? null, description }
}

const checkOptionsOfLimit = declareOptions({
  ticketsPerSecond: required(number({ min: SLOWEST, max: FASTEST })),
  burst: integer({ min: 1, max: LARGEST_BURST }),
  description: text({ max: 2_000 }),
})
