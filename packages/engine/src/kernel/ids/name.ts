import { describe } from '../validation/describe.js'
import { invalidOption } from '../validation/invalid-option.js'
import { unstorableIn } from '../validation/storable-text.js'

const LONGEST = 200

/**
 * The name of a step, a wait, a command or a definition, checked where it enters. Ids and idempotency keys are made of
 * names and join them with `#` and `/`, so a name contains neither: two different calls never share a key.
 *
 * @example
 * checkName('step', 'name', 'bookRisk')   // 'bookRisk'
 * checkName('step', 'name', 'bookRisk#2') // throws HF_INVALID_OPTION
 */
export function checkName(where: string, option: string, value: unknown): string {
  const problem = problemInName(value)
  if (problem === undefined) return value as string
  throw invalidOption(where, option, problem)
}

/** Whether a value is such a name. */
export function isName(value: unknown): value is string {
  return problemInName(value) === undefined
}

/** What is wrong with a name, as the end of a sentence, or nothing. */
export function problemInName(value: unknown): string | undefined {
  if (typeof value !== 'string') return `must be a text, not ${describe(value)}`
  if (value.trim() === '') return 'must not be empty'
  if (value.length > LONGEST) return `must have at most ${LONGEST} characters, not ${value.length}`
  const unstorable = unstorableIn(value)
  if (unstorable !== undefined) return `contains ${unstorable}, which PostgreSQL cannot hold`
  if (/[#/]/.test(value)) return `must not contain \`#\` or \`/\`: ${describe(value)}`
  return undefined
}

/**
 * The domain and the type of a definition's full name, as the tables hold it.
 *
 * @example
 * splitName('payments/Payment') // { domain: 'payments', type: 'Payment' }
 */
export function splitName(name: string): { readonly domain: string; readonly type: string } {
  const slash = name.indexOf('/')
  return { domain: name.slice(0, Math.max(slash, 0)), type: name.slice(slash + 1) }
}
