import { parseId } from '../ids/id.js'
import { boolean, date, declareOptions, duration, integer, type OptionRule, text } from '../validation/declared.js'
import { invalidOption } from '../validation/invalid-option.js'
import { type Place, readCursor } from './page.js'

/** The id of a piece of work or a batch. */
export const uuid: OptionRule<string | undefined> = (where, name, value) =>
  value === undefined ? undefined : parseId(`${where}: ${name}`, value)

const cursor: OptionRule<Place | undefined> = (where, _name, value) => readCursor(where, value)

/**
 * The filters that the lists of all models share. A model adds its own beside them.
 *
 * @example
 * const filter = { ...listFilter, status: choice(commandStatuses), batch: uuid }
 * const checkList = declareOptions({ ...filter, ...page })
 */
export const listFilter = {
  domain: text(),
  type: text(),
  key: text({ max: 512 }),
  since: date,
  until: date,
}

/** What a list takes besides its filter, and a count does not. */
export const page = { cursor, limit: integer({ min: 1, max: 10_000, default: 100 }) }

/** When work begins that does not begin at once: at a moment, or so long after now by the clock of the database. */
export type LaterStart = { readonly start_ms: number } | { readonly start_in_ms: number }

/** Checks `startAt` and `delay`; undefined where it begins at once. */
export function laterStart(
  where: string,
  given: { readonly startAt?: unknown; readonly delay?: unknown },
): LaterStart | undefined {
  const startAt = date(where, 'startAt', given.startAt)
  const delay = duration({ min: 0 })(where, 'delay', given.delay)
  if (startAt && delay !== undefined) throw invalidOption(where, 'delay', 'goes without `startAt`: give one of them')
  if (startAt) return { start_ms: startAt.getTime() }
  return delay === undefined ? undefined : { start_in_ms: delay }
}

/** The options of every `result()`. */
export const checkResultOptions = declareOptions({ timeout: duration({ default: '30s' }) })

/** The options of every `cancel`. */
export const checkCancelOptions = declareOptions({ compensate: boolean({ default: true }) })
