import { HoldfastError } from '../../kernel/errors.js'

const AROUND = 60

/** The refusal of an expression, with a caret under the place; `at` counts from 0, people read from 1. */
export function malformed(expression: string, at: number, problem: string): HoldfastError<'HF_INVALID_CONDITION'> {
  return new HoldfastError('HF_INVALID_CONDITION', { problem, position: at + 1, marked: markPlace(expression, at) })
}

/**
 * A line of the expression and a caret under the place.
 *
 * @example
 * markPlace('{{ gt .a }}', 3)
 * // {{ gt .a }}
 * //    ^
 */
export function markPlace(expression: string, at: number): string {
  const from = Math.max(0, at - AROUND)
  // Tabs and line ends would move the caret away from its place.
  const line = expression.slice(from, at + AROUND).replace(/\s/g, ' ')
  return `${line}\n${' '.repeat(at - from)}^`
}
