import { parseId } from '../ids/id.js'
import { date, declareOptions, duration, integer, type OptionRule, text } from '../validation/declared.js'
import { type Place, readCursor } from './page.js'

/** The id of a piece of work or a batch. */
export const uuid: OptionRule<string | undefined> = (where, name, value) =>
  value === undefined ? undefined : parseId(`${where}: ${name}`, value)

const cursor: OptionRule<Place | undefined> = (where, _name, value) => readCursor(where, value)

/**
 * The filters that the lists of all models share. A model adds its own beside them.
 *
 * @example
 * const checkFilter = declareOptions({ ...listFilter, status: choice(commandStatuses), batch: uuid })
 */
export const listFilter = {
  domain: text(),
  type: text(),
  key: text(),
  since: date,
  until: date,
  cursor,
  limit: integer({ min: 1, max: 10_000, default: 100 }),
}

/** The options of every `result()`. */
export const checkResultOptions = declareOptions({ timeout: duration({ default: '30s' }) })
