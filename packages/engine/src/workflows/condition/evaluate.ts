// Evaluates a parsed condition on the input of its step. Pure. Numbers are compared digit by digit, and a value that cannot be compared
// is an error of the step, never a silent `false`.

import { HoldfastError } from '../../kernel/errors.js'
import { areEqual, equalTo, toNumber } from './compare.js'
import { compareDecimals, type Decimal } from './decimal.js'
import { includes } from './includes.js'
import { markPlace } from './malformed.js'
import type { Expression, FunctionName } from './parse.js'
import { booleanValue, fieldOf, isTruthy, missing, textValue, toValue, type Value } from './value.js'

/** What the fields of an expression are looked up in. */
export interface Scope {
  readonly text: string
  readonly input: Value
  readonly instanceId: string
  readonly stepName: string
}

type Field = Extract<Expression, { kind: 'field' }>
type Call = Extract<Expression, { kind: 'call' }>

export function evaluate(expression: Expression, scope: Scope): Value {
  switch (expression.kind) {
    case 'literal':
      return expression.value
    case 'field':
      return lookUp(expression, scope)
    case 'call':
      return functions[expression.name](expression, scope)
  }
}

function lookUp(field: Field, scope: Scope): Value {
  const [first] = field.path
  if (field.path.length === 1 && first === 'instance_id') return textValue(scope.instanceId)
  if (field.path.length === 1 && first === 'step_name') return textValue(scope.stepName)
  let value = scope.input
  for (const [depth, name] of field.path.entries()) {
    // The fields of a missing value are missing too; the input itself must exist.
    if (value.is === 'missing' && depth > 0) return missing
    if (value.is !== 'object')
      throw unevaluable(scope, field, `${ownerOf(field, depth)} is ${named(value)}, which has no fields`)
    value = fieldOf(value.fields, name)
  }
  return value
}

const ownerOf = (field: Field, depth: number): string =>
  depth === 0 ? 'the input' : `\`.${field.path.slice(0, depth).join('.')}\``

type Implementation = (call: Call, scope: Scope) => Value

const ordering =
  (holds: (comparison: number) => boolean): Implementation =>
  (call, scope) => {
    const [left, right] = two(call, scope)
    return booleanValue(holds(compareDecimals(numberOf(left, call, scope), numberOf(right, call, scope))))
  }

const onTexts =
  (holds: (text: string, part: string) => boolean): Implementation =>
  (call, scope) => {
    const [text, part] = two(call, scope)
    return booleanValue(holds(textOf(text, call, scope), textOf(part, call, scope)))
  }

const functions: Readonly<Record<FunctionName, Implementation>> = {
  eq: (call, scope) => {
    const [first = missing, ...others] = call.args.map((arg) => evaluate(arg, scope))
    return booleanValue(others.some((other) => equal(first, other, call, scope)))
  },
  ne: (call, scope) => booleanValue(!equal(...two(call, scope), call, scope)),
  gt: ordering((comparison) => comparison > 0),
  lt: ordering((comparison) => comparison < 0),
  ge: ordering((comparison) => comparison >= 0),
  le: ordering((comparison) => comparison <= 0),
  // As in Go they return one of their values, and evaluate no more than they need.
  and: (call, scope) => firstThat(call, scope, (value) => !isTruthy(value)),
  or: (call, scope) => firstThat(call, scope, isTruthy),
  not: (call, scope) => booleanValue(!isTruthy(two(call, scope)[0])),
  contains: (call, scope) => {
    const [whole, part] = two(call, scope)
    if (whole.is === 'list') {
      const equals = equalTo(part)
      return booleanValue(whole.items.some((item) => equals(toValue(item)) === true))
    }
    return booleanValue(includes(textOf(whole, call, scope), textOf(part, call, scope)))
  },
  hasPrefix: onTexts((text, part) => text.startsWith(part)),
  hasSuffix: onTexts((text, part) => text.endsWith(part)),
}

function firstThat(call: Call, scope: Scope, wanted: (value: Value) => boolean): Value {
  let value = missing
  for (const arg of call.args) {
    value = evaluate(arg, scope)
    if (wanted(value)) break
  }
  return value
}

function two(call: Call, scope: Scope): [Value, Value] {
  const [left, right] = call.args
  return [left ? evaluate(left, scope) : missing, right ? evaluate(right, scope) : missing]
}

function equal(a: Value, b: Value, call: Call, scope: Scope): boolean {
  const answer = areEqual(a, b)
  if (answer !== undefined) return answer
  throw unevaluable(scope, call, `\`${call.name}\` cannot compare ${named(a)} with ${named(b)}`)
}

function numberOf(value: Value, call: Call, scope: Scope): Decimal {
  const number = toNumber(value)
  if (number !== undefined) return number
  throw unevaluable(scope, call, `\`${call.name}\` compares numbers, and ${named(value)} is none`)
}

function textOf(value: Value, call: Call, scope: Scope): string {
  if (value.is === 'text') return value.value
  if (value.is === 'missing') return ''
  throw unevaluable(scope, call, `\`${call.name}\` looks into texts, and ${named(value)} is none`)
}

/** The kind of a value only: what a field holds may be secret, and messages are stored. */
function named(value: Value): string {
  switch (value.is) {
    case 'missing':
      return 'nothing'
    case 'list':
      return 'a list'
    case 'object':
      return 'an object'
    default:
      return `a ${value.is}`
  }
}

function unevaluable(scope: Scope, where: Expression, problem: string) {
  const marked = markPlace(scope.text, where.at)
  return new HoldfastError('HF_CONDITION_UNEVALUABLE', { step: scope.stepName, problem, marked })
}
