import type { StandardSchemaV1 } from '@standard-schema/spec'
import { HoldfastError } from '../errors.js'
import { describe } from './describe.js'
import { invalidOption } from './invalid-option.js'
import { displayPath } from './json-path.js'

/**
 * Parses a value with any Standard Schema (zod, valibot, arktype). The result is a promise only where the schema
 * is asynchronous; without a schema the value is what it is.
 *
 * @example
 * const request = await parseWith(RiskRequest, body, 'payments.BookRisk')
 */
export function parseWith(schema: undefined, value: unknown, where: string): unknown
export function parseWith<Output>(
  schema: StandardSchemaV1<unknown, Output>,
  value: unknown,
  where: string,
): Output | Promise<Output>
export function parseWith(schema: StandardSchemaV1 | undefined, value: unknown, where: string): unknown
export function parseWith(schema: StandardSchemaV1 | undefined, value: unknown, where: string): unknown {
  refuseThenable(value, where)
  if (schema === undefined) return value
  const standard = checkSchema(where, 'schema', schema)['~standard']
  const outcome = guarded(where, () => standard.validate(value))
  if (!(outcome instanceof Promise)) return outputOf(outcome, where)
  return outcome.then(
    (result) => outputOf(result, where),
    (error: unknown) => {
      throw schemaThrew(where, error)
    },
  )
}

/**
 * Refuses, where a definition is made, what is no Standard Schema.
 *
 * @example
 * checkSchema('defineCommand', 'data', definition.data)
 */
export function checkSchema(where: string, option: string, value: unknown): StandardSchemaV1 {
  if (isStandardSchema(value)) return value
  throw invalidOption(
    where,
    option,
    `must be a Standard Schema (made with zod 4, valibot 1, arktype 2 or the like), not ${describe(value)}`,
  )
}

function isStandardSchema(value: unknown): value is StandardSchemaV1 {
  // A schema of arktype is a function.
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false
  if (!('~standard' in value)) return false
  const standard = value['~standard']
  return typeof standard === 'object' && standard !== null && 'validate' in standard && isFunction(standard.validate)
}

const isFunction = (value: unknown): boolean => typeof value === 'function'

function guarded<Result>(where: string, validate: () => Result): Result {
  try {
    return validate()
  } catch (error) {
    throw schemaThrew(where, error)
  }
}

function outputOf(result: StandardSchemaV1.Result<unknown>, where: string): unknown {
  if (result.issues === undefined) {
    refuseThenable(result.value, where)
    return result.value
  }
  const issues = result.issues.map((issue) => ({ path: pathOf(issue), problem: issue.message }))
  const path = issues[0]?.path ?? '$'
  const further = issues.length > 1 ? ` (and ${issues.length - 1} more)` : ''
  const problem = `is refused by the schema: ${issues[0]?.problem ?? 'no reason given'}${further}`
  throw new HoldfastError('HF_INVALID_DATA', { where, path, problem, issues })
}

/** Code that awaits the result would await this too: mostly a forgotten `await`, and for ever where it never settles. */
function refuseThenable(value: unknown, where: string): void {
  if (typeof value !== 'object' || value === null) return
  if (guarded(where, () => !('then' in value) || typeof value.then !== 'function')) return
  throw new HoldfastError('HF_INVALID_DATA', { where, path: '$', problem: 'is a promise: await it first' })
}

function pathOf(issue: StandardSchemaV1.Issue): string {
  const keys = (issue.path ?? []).map((segment) => (typeof segment === 'object' ? segment.key : segment))
  return displayPath(
    '$',
    keys.map((key) => (typeof key === 'symbol' ? String(key) : key)),
  )
}

function schemaThrew(where: string, cause: unknown): HoldfastError<'HF_INVALID_DATA'> {
  const problem = `made the schema throw: ${cause instanceof Error ? cause.message : describe(cause)}`
  return new HoldfastError('HF_INVALID_DATA', { where, path: '$', problem }, { cause })
}
