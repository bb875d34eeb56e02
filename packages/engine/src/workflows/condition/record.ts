// Conditions as typed functions: `(order) => order.total.gt(1000)` is called once, when the workflow is built, with a recording
// proxy, and produces the expression that is stored: `{{ gt .total 1000 }}`. Nothing of the function is stored or called later.

import { describe } from '../../kernel/validation/describe.js'

/** A condition that was recorded. */
export interface RecordedCondition {
  and(...others: readonly AnyCondition[]): RecordedCondition
  or(...others: readonly AnyCondition[]): RecordedCondition
  not(): RecordedCondition
}

type Scalar = string | number | bigint | boolean | null

interface FieldMethods<Value> extends RecordedCondition {
  eq(...values: readonly [ComparedWith<Value>, ...ComparedWith<Value>[]]): RecordedCondition
  ne(value: ComparedWith<Value>): RecordedCondition
  gt(value: NumberLike): RecordedCondition
  gte(value: NumberLike): RecordedCondition
  lt(value: NumberLike): RecordedCondition
  lte(value: NumberLike): RecordedCondition
  /** Of a text: whether the other text is in it. */
  contains(part: string | Field<string>): RecordedCondition
  hasPrefix(part: string | Field<string>): RecordedCondition
  hasSuffix(part: string | Field<string>): RecordedCondition
}

type ComparedWith<Value> = (Value extends Scalar | undefined ? Exclude<Value, undefined> : never) | null | AnyField
/** Numbers, and texts that spell one: amounts are compared digit by digit. */
type NumberLike = number | bigint | string | AnyField
type AnyField = FieldMethods<never> | FieldMethods<string> | FieldMethods<number> | FieldMethods<boolean>

/**
 * A field of the input, in a condition. By itself it is true where it is there and neither false, zero nor empty. A field that has
 * the name of a method (`eq`, `and`, …) can only be named in the text form.
 */
export type Field<Value> = FieldMethods<Value> &
  (NonNullable<Value> extends Scalar | readonly unknown[]
    ? unknown
    : { readonly [Name in keyof NonNullable<Value> & string]-?: Field<NonNullable<Value>[Name]> })

/** What the function of a condition is given: the input, if its type is known. */
/* oxlint-disable-next-line typescript/no-explicit-any */ // biome-ignore lint/suspicious/noExplicitAny: nothing is known of the fields of an input whose type was not declared
type ConditionInput<Input> = unknown extends Input ? any : Field<Input>

type AnyCondition = RecordedCondition | boolean

export type ConditionFunction<Input> = (input: ConditionInput<Input>) => AnyCondition

const FUNCTIONS: Readonly<Record<string, string>> = {
  eq: 'eq',
  ne: 'ne',
  gt: 'gt',
  gte: 'ge',
  lt: 'lt',
  lte: 'le',
  and: 'and',
  or: 'or',
  not: 'not',
  contains: 'contains',
  hasPrefix: 'hasPrefix',
  hasSuffix: 'hasSuffix',
}

const textOf = Symbol('text')
const fieldName = /^[\p{L}_][\p{L}\p{N}_]*$/u

/**
 * The expression that a function of a condition produces.
 *
 * @example
 * recordCondition((order) => order.total.gt(1000).and(order.kind.ne('gift')))   // '{{ and (gt .total 1000) (ne .kind "gift") }}'
 */
export function recordCondition(condition: (input: never) => unknown): string {
  const text = operandOf(condition(recorder('.', []) as never))
  return `{{ ${text.startsWith('(') ? text.slice(1, -1) : text} }}`
}

/** A field with its path, or a call: both can be asked further, only a field has fields. */
function recorder(text: string, path: readonly string[] | undefined): object {
  return new Proxy(Object.create(null), {
    get(_, property) {
      if (property === textOf) return text
      if (typeof property === 'symbol') throw new TypeError(`a condition cannot use ${String(property)} of its input`)
      const name = FUNCTIONS[property]
      if (name !== undefined) return (...others: unknown[]) => call(name, [text, ...others.map(operandOf)])
      if (path === undefined) throw new TypeError(`a condition has no \`${property}\`: it has and, or and not`)
      if (!fieldName.test(property)) {
        throw new TypeError(
          `the field \`${property}\` cannot be named in a condition: it must be made of letters, digits and _`,
        )
      }
      return recorder(`.${[...path, property].join('.')}`, [...path, property])
    },
  })
}

const call = (name: string, operands: readonly string[]): object =>
  recorder(`(${[name, ...operands].join(' ')})`, undefined)

function operandOf(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return `"${value.replaceAll(/["\\\p{Cc}]/gu, escaped)}"`
    case 'number':
      if (Number.isFinite(value)) return String(value)
      break
    case 'bigint':
    case 'boolean':
      return String(value)
    case 'object': {
      if (value === null) return 'nil'
      const text: unknown = Reflect.get(value, textOf)
      if (typeof text === 'string') return text
      break
    }
    default:
  }
  throw new TypeError(`a condition compares fields, texts, numbers, booleans and null, not ${describe(value)}`)
}

const escaped = (letter: string): string =>
  letter === '"' || letter === '\\' ? `\\${letter}` : `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`
