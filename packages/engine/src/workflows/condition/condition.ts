import { HoldfastError } from '../../kernel/errors.js'
import { evaluate } from './evaluate.js'
import { parseExpression } from './parse.js'
import { isTruthy, readJson, type Value } from './value.js'

/** The input of a condition. */
interface ConditionSubject {
  /** The step's input as JSON text, so that no digit of a number is lost on the way. */
  readonly input: string
  readonly instanceId: string
  readonly stepName: string
}

export interface Condition {
  readonly text: string
  /** Throws `HF_CONDITION_UNEVALUABLE` if it cannot be evaluated with this input, and nothing else. */
  test(subject: ConditionSubject): boolean
}

/**
 * A condition in the language of Go's templates: `eq ne gt lt ge le and or not contains hasPrefix hasSuffix`, fields
 * (`.user.age`, `.instance_id`, `.step_name`), texts, numbers, `true`, `false`, `nil`, parentheses. Parsed once; never
 * JavaScript.
 *
 * Numbers compare exactly, as decimals. Nothing (a missing field, null) is 0 beside a number, empty beside a text and
 * false by itself; `"42"` equals 42, `true` equals 1. The input has to be an object where a field of it is named.
 *
 * @example
 * const condition = parseCondition('{{ and (gt .amount 100) (eq .currency "EUR") }}')
 * condition.test({ input: '{"amount": "100.01", "currency": "EUR"}', instanceId, stepName })   // true
 */
export function parseCondition(text: string): Condition {
  const expression = parseExpression(text)
  return {
    text,
    test({ input, instanceId, stepName }) {
      const scope = { text, input: read(input, stepName), instanceId, stepName }
      return isTruthy(evaluate(expression, scope))
    },
  }
}

function read(input: string, step: string): Value {
  try {
    return readJson(input)
  } catch (cause) {
    const problem = 'the input is not JSON'
    throw new HoldfastError('HF_CONDITION_UNEVALUABLE', { step, problem, marked: '' }, { cause })
  }
}
