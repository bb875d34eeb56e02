import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Duration } from '../duration/duration.js'
import { invalidOption } from './invalid-option.js'
import {
  booleanOption,
  checkOptions,
  choiceOption,
  dateOption,
  durationOption,
  functionOption,
  integerOption,
  numberOption,
  textOption,
} from './options.js'
import { checkSchema } from './schema.js'

/**
 * What one option must be, and what it is where it is left out. Without a `default` among its rules an option may be left out;
 * `required` makes it required.
 */
export type OptionRule<Value> = (where: string, name: string, value: unknown) => Value

export type OptionRules = Readonly<Record<string, OptionRule<unknown>>>

type OptionValues<Rules extends OptionRules> = { readonly [Name in keyof Rules]: ReturnType<Rules[Name]> }

/** Checks the options of one call: refuses unknown names, and returns the values with their defaults. */
export type CheckDeclared<Rules extends OptionRules> = (where: string, options: unknown) => OptionValues<Rules>

/**
 * Declares options: the type, bounds and default of each in one place.
 *
 * @example
 * const checkWorkerOptions = declareOptions({
 *   concurrency: integer({ min: 1, max: 100_000, default: 4 }),
 *   lease: duration({ min: '100ms', max: '1d', default: '30s' }),
 * })
 * const { concurrency, lease } = checkWorkerOptions('run', options)
 */
export function declareOptions<Rules extends OptionRules>(rules: Rules): CheckDeclared<Rules> {
  const names = Object.keys(rules)
  return (where, options) => {
    const given = checkOptions(where, options, names)
    const values: Record<string, unknown> = {}
    for (const name of names) values[name] = rules[name]?.(where, name, given[name])
    // Each value is what the rule of its name returned.
    return values as OptionValues<Rules>
  }
}

interface Range<Bound> {
  readonly min?: Bound
  readonly max?: Bound
}

/** A rule of an option that must be given. */
export function required<Value>(rule: OptionRule<Value | undefined>): OptionRule<Value> {
  return (where, name, value) => {
    const checked = rule(where, name, value)
    if (checked === undefined) throw invalidOption(where, name, 'is required')
    return checked
  }
}

export function text<Default extends string | undefined = undefined>(
  rules: { readonly max?: number; readonly default?: Default } = {},
): OptionRule<string | Default> {
  return (where, name, value) => textOption<Default>(where, name, value, withDefault<Default, typeof rules>(rules))
}

export function integer<Default extends number | undefined = undefined>(
  rules: Range<number> & { readonly default?: Default } = {},
): OptionRule<number | Default> {
  return (where, name, value) => integerOption<Default>(where, name, value, withDefault<Default, typeof rules>(rules))
}

export function number<Default extends number | undefined = undefined>(
  rules: Range<number> & { readonly default?: Default } = {},
): OptionRule<number | Default> {
  return (where, name, value) => numberOption<Default>(where, name, value, withDefault<Default, typeof rules>(rules))
}

export function boolean<Default extends boolean | undefined = undefined>(
  rules: { readonly default?: Default } = {},
): OptionRule<boolean | Default> {
  return (where, name, value) => booleanOption<Default>(where, name, value, withDefault<Default, typeof rules>(rules))
}

/** In milliseconds. */
export function duration(rules: Range<Duration> & { readonly default: Duration }): OptionRule<number>
export function duration(rules?: Range<Duration>): OptionRule<number | undefined>
export function duration(
  rules: Range<Duration> & { readonly default?: Duration } = {},
): OptionRule<number | undefined> {
  return (where, name, value) =>
    rules.default === undefined && value === undefined ? undefined : durationOption(where, name, value, rules)
}

export const date: OptionRule<Date | undefined> = (where, name, value) =>
  dateOption(where, name, value, { default: undefined })

export function choice<const Choice extends string>(
  choices: readonly Choice[],
  rules: { readonly default: Choice },
): OptionRule<Choice>
export function choice<const Choice extends string>(choices: readonly Choice[]): OptionRule<Choice | undefined>
export function choice<const Choice extends string>(
  choices: readonly Choice[],
  rules: { readonly default?: Choice } = {},
): OptionRule<Choice | undefined> {
  return (where, name, value) =>
    rules.default === undefined && value === undefined ? undefined : choiceOption(where, name, value, choices, rules)
}

const checkSpan = declareOptions({ from: date, until: date })

/** Any Standard Schema. */
export const schema: OptionRule<StandardSchemaV1 | undefined> = (where, name, value) =>
  value === undefined ? undefined : checkSchema(where, name, value)

/** A function of the caller. */
export const callback =
  <Wanted>(): OptionRule<Wanted | undefined> =>
  (where, name, value) =>
    functionOption<Wanted>(where, name, value, { default: undefined })

/** Null is something else than left out: it takes a value away. */
export const orNull =
  <Value>(rule: OptionRule<Value>): OptionRule<Value | null> =>
  (where, name, value) =>
    value === null ? null : rule(where, name, value)

/** From a moment on, and before another. */
export const timeSpan: OptionRule<{ readonly from: Date | undefined; readonly until: Date | undefined }> = (
  where,
  name,
  value,
) => checkSpan(`${where}: ${name}`, value)

/** Checked elsewhere: a schema, a transaction, data. */
export const anything: OptionRule<unknown> = (_where, _name, value) => value

/** Where no default is declared it is undefined, which tells a check that the option may be left out. */
function withDefault<Default, Rules extends { readonly default?: Default }>(
  rules: Rules,
): Rules & { default: Default } {
  return { ...rules, default: rules.default as Default }
}
