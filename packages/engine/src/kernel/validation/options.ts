import { type Duration, formatDuration, parseDuration, toMilliseconds } from '../duration/duration.js'
import { HoldfastError } from '../errors.js'
import { describe, shown } from './describe.js'
import { invalidOption } from './invalid-option.js'
import { nearestName } from './nearest.js'
import { unstorableIn } from './storable-text.js'

/** Without `default` the option is required; `default: undefined` makes it optional. */
interface Rules<Default> {
  readonly default?: Default
}

interface DurationRules {
  readonly min?: Duration
  readonly max?: Duration
}

/**
 * Refuses unknown options, naming the one that was probably meant. Leaving the options out is the same
 * as giving none.
 *
 * @example
 * const given = checkOptions('startWorker', options, ['concurrency', 'lease'])
 * const concurrency = integerOption('startWorker', 'concurrency', given.concurrency, { min: 1, default: 4 })
 */
export function checkOptions<Name extends string>(
  where: string,
  options: unknown,
  known: readonly Name[],
): Partial<Record<Name, unknown>> {
  if (options === undefined) return {}
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw invalidOption(where, 'options', `must be an object, not ${describe(options)}`)
  }
  // Nothing would be found in it, and whatever was meant would be dropped.
  if (holdsNoOptions(where, options))
    throw invalidOption(where, 'options', `must be an object, not ${describe(options)}`)
  const names: readonly string[] = known
  for (const option of keysOf(where, options)) {
    if (!names.includes(option)) {
      const nearest = nearestName(option, known)
      const told = { where, option: shown(option), ...(nearest === undefined ? {} : { nearest }) }
      throw new HoldfastError('HF_UNKNOWN_OPTION', told)
    }
    readOnce(where, option, options)
  }
  return options
}

/**
 * A whole number.
 *
 * @example
 * integerOption('startEmbedded', 'port', given.port, { min: 1, max: 65_535, default: undefined })
 */
export function integerOption<Default extends number | undefined = number>(
  where: string,
  name: string,
  value: unknown,
  rules: Rules<Default> & { readonly min?: number; readonly max?: number } = {},
): number | Default {
  if (value === undefined) return fallback(where, name, rules)
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) {
    throw invalidOption(where, name, `must be a whole number, not ${describe(value)}`)
  }
  checkRange(where, name, value, rules, String)
  return value
}

/**
 * A number that need not be whole.
 *
 * @example
 * numberOption('limits.set', 'ticketsPerSecond', given.ticketsPerSecond, { min: 0.001, max: 1e6 })
 */
export function numberOption<Default extends number | undefined = number>(
  where: string,
  name: string,
  value: unknown,
  rules: Rules<Default> & { readonly min?: number; readonly max?: number } = {},
): number | Default {
  if (value === undefined) return fallback(where, name, rules)
  if (typeof value !== 'number' || !Number.isFinite(value)) {
    throw invalidOption(where, name, `must be a number, not ${describe(value)}`)
  }
  checkRange(where, name, value, rules, String)
  return value
}

/**
 * A duration, as milliseconds. Its bounds and its default may be written as durations too.
 *
 * @example
 * const lease = durationOption('startWorker', 'lease', given.lease, { min: '1s', default: '30s' })
 */
export function durationOption(
  where: string,
  name: string,
  value: unknown,
  rules: DurationRules & { readonly default: undefined },
): number | undefined
export function durationOption(
  where: string,
  name: string,
  value: unknown,
  rules?: DurationRules & Rules<Duration>,
): number
export function durationOption(
  where: string,
  name: string,
  value: unknown,
  rules: DurationRules & Rules<Duration | undefined> = {},
): number | undefined {
  const given = value === undefined ? fallback(where, name, rules) : value
  if (given === undefined) return undefined
  const milliseconds = parseDuration(given, `${where}: option \`${name}\``)
  const range = {
    ...(rules.min === undefined ? {} : { min: toMilliseconds(rules.min) }),
    ...(rules.max === undefined ? {} : { max: toMilliseconds(rules.max) }),
  }
  checkRange(where, name, milliseconds, range, formatDuration)
  return milliseconds
}

/**
 * True or false.
 *
 * @example
 * booleanOption('holdfast', 'migrate', given.migrate, { default: true })
 */
export function booleanOption<Default extends boolean | undefined = boolean>(
  where: string,
  name: string,
  value: unknown,
  rules: Rules<Default> = {},
): boolean | Default {
  if (value === undefined) return fallback(where, name, rules)
  if (typeof value !== 'boolean') throw invalidOption(where, name, `must be true or false, not ${describe(value)}`)
  return value
}

/**
 * A text that is not empty and that PostgreSQL can hold: what an option says reaches a statement sooner or later.
 *
 * @example
 * textOption('holdfast', 'schema', given.schema, { max: 63, default: 'holdfast' })
 */
export function textOption<Default extends string | undefined = string>(
  where: string,
  name: string,
  value: unknown,
  rules: Rules<Default> & { readonly max?: number } = {},
): string | Default {
  if (value === undefined) return fallback(where, name, rules)
  if (typeof value !== 'string') throw invalidOption(where, name, `must be a text, not ${describe(value)}`)
  if (value === '') throw invalidOption(where, name, 'must not be empty')
  if (rules.max !== undefined && value.length > rules.max) {
    throw invalidOption(where, name, `must have at most ${rules.max} characters, not ${value.length}`)
  }
  const bad = unstorableIn(value)
  if (bad !== undefined) throw invalidOption(where, name, `contains ${bad}, which PostgreSQL cannot hold`)
  return value
}

/**
 * A function of the caller. `default: undefined` makes it optional.
 *
 * @example
 * const apply = functionOption<Apply>(where, 'apply', given.apply, { default: undefined })
 */
export function functionOption<Wanted>(where: string, name: string, value: unknown): Wanted
export function functionOption<Wanted>(
  where: string,
  name: string,
  value: unknown,
  rules: { readonly default: undefined },
): Wanted | undefined
export function functionOption<Wanted>(
  where: string,
  name: string,
  value: unknown,
  rules?: { readonly default: undefined },
): Wanted | undefined {
  if (value === undefined && rules) return undefined
  if (typeof value !== 'function') throw invalidOption(where, name, `must be a function, not ${describe(value)}`)
  return value as Wanted
}

/**
 * One of a few words.
 *
 * @example
 * choiceOption('holdfast', 'preparedStatements', given.preparedStatements, ['auto', 'off'], { default: 'auto' })
 */
export function choiceOption<const Choice extends string, Default extends Choice | undefined = Choice>(
  where: string,
  name: string,
  value: unknown,
  choices: readonly Choice[],
  rules: Rules<Default> = {},
): Choice | Default {
  if (value === undefined) return fallback(where, name, rules)
  const choice = choices.find((candidate) => candidate === value)
  if (choice !== undefined) return choice
  const list = choices.map((candidate) => `'${candidate}'`).join(', ')
  throw invalidOption(where, name, `must be one of ${list}, not ${describe(value)}`)
}

// Text without an offset means another moment on every machine, so it is not a date here.
const isoMoment = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})$/

/**
 * A moment: a `Date`, or ISO-8601 text with its offset.
 *
 * @example
 * dateOption('send', 'startAt', given.startAt, { default: undefined })
 */
export function dateOption<Default extends Date | undefined = Date>(
  where: string,
  name: string,
  value: unknown,
  rules: Rules<Default> = {},
): Date | Default {
  if (value === undefined) return fallback(where, name, rules)
  const isText = typeof value === 'string' && isoMoment.test(value)
  const date = value instanceof Date || isText ? new Date(value) : undefined
  if (date === undefined || Number.isNaN(date.getTime())) {
    throw invalidOption(
      where,
      name,
      `must be a Date or a text such as '2030-01-31T12:00:00Z' (with Z or an offset), not ${describe(value)}`,
    )
  }
  return date
}

/** A forgotten `await`, or a date in the wrong place. */
function holdsNoOptions(where: string, options: object): boolean {
  try {
    return options instanceof Date || typeof Reflect.get(options, 'then') === 'function'
  } catch (error) {
    throw unreadable(where, 'options', error)
  }
}

function keysOf(where: string, options: object): string[] {
  try {
    return Object.keys(options)
  } catch (error) {
    throw unreadable(where, 'options', error)
  }
}

/** A getter or a proxy that throws is found here, and not in the middle of the work. */
function readOnce(where: string, option: string, options: object): void {
  try {
    Reflect.get(options, option)
  } catch (error) {
    throw unreadable(where, option, error)
  }
}

function unreadable(where: string, option: string, cause: unknown): HoldfastError<'HF_INVALID_OPTION'> {
  return invalidOption(where, option, `cannot be read: ${cause instanceof Error ? cause.message : describe(cause)}`, {
    cause,
  })
}

function fallback<Default>(where: string, name: string, rules: Rules<Default>): Default {
  // `in`, because `default: undefined` is how an option says that it may be left out.
  if ('default' in rules) return rules.default
  throw invalidOption(where, name, 'is required')
}

function checkRange(
  where: string,
  name: string,
  value: number,
  range: { readonly min?: number; readonly max?: number },
  show: (value: number) => string,
): void {
  const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY } = range
  if (value >= min && value <= max) return
  const wanted =
    max === Number.POSITIVE_INFINITY
      ? `${show(min)} or more`
      : min === Number.NEGATIVE_INFINITY
        ? `${show(max)} or less`
        : `from ${show(min)} to ${show(max)}`
  throw invalidOption(where, name, `must be ${wanted}, not ${show(value)}`)
}
