import { formatDuration } from '../duration/duration.js'
import { HoldfastError } from '../errors.js'
import { codeOf, isTransient, outcomeUnknown } from './transient.js'

/**
 * Makes every function of an object, and of the objects in it, reject with an error of the registry: what PostgreSQL or the
 * driver says in their own codes becomes the `cause`, and so does a TypeError or a RangeError, by which JavaScript says that an
 * argument is not what its type promises. Other errors pass as they are. Applied once, to the public API.
 */
export function coded<Api extends object>(api: Api, schema: string, path = 'hf'): Api {
  const entries = Object.entries(Object.getOwnPropertyDescriptors(api)).map(([name, descriptor]) => {
    const { value } = descriptor
    const where = `${path}.${name}`
    if (typeof value === 'function')
      return [name, { ...descriptor, value: codedCall(value, api, schema, where) }] as const
    if (isPlainObject(value)) return [name, { ...descriptor, value: coded(value, schema, where) }] as const
    return [name, descriptor] as const
  })
  return Object.defineProperties({}, Object.fromEntries(entries)) as Api
}

/** The same for one call: methods of handles use it, because handles are not part of the object that `coded` wraps. */
export async function codedAsync<T>(schema: string, where: string, work: () => Promise<T>): Promise<T> {
  const began = performance.now()
  try {
    return await work()
  } catch (error) {
    throw codedError(error, schema, where, performance.now() - began)
  }
}

type AnyFunction = (...parameters: unknown[]) => unknown

function codedCall(call: AnyFunction, self: object, schema: string, where: string): AnyFunction {
  return (...parameters) => {
    const began = performance.now()
    const answer = atOnce(() => call.apply(self, parameters), where)
    if (!(answer instanceof Promise)) return answer
    return answer.catch((error: unknown) => {
      throw codedError(error, schema, where, performance.now() - began)
    })
  }
}

function atOnce(call: () => unknown, where: string): unknown {
  try {
    return call()
  } catch (error) {
    throw isOfArguments(error) ? ofArguments(error, where) : error
  }
}

/** Errors of the platform that have no code; those of Node.js have one. */
function isOfArguments(error: unknown): error is TypeError | RangeError {
  return (error instanceof TypeError || error instanceof RangeError) && !('code' in error)
}

function ofArguments(error: Error, operation: string): HoldfastError<'HF_INVALID_ARGUMENT'> {
  return new HoldfastError('HF_INVALID_ARGUMENT', { operation, problem: error.message }, { cause: error })
}

/** The error of the registry for an error of the database or of the arguments; anything else as it is. */
export function codedError(error: unknown, schema: string, operation: string, waitedMs: number): unknown {
  if (!(error instanceof Error) || error instanceof HoldfastError) return error
  const problem = error.message
  const state = codeOf(error)
  const ofServer = 'severity' in error && /^[0-9A-Z]{5}$/.test(state)
  if (isTransient(error)) {
    if (outcomeUnknown(error)) return new HoldfastError('HF_OUTCOME_UNKNOWN', { operation, problem }, { cause: error })
    const waited = formatDuration(Math.max(1, waitedMs))
    return new HoldfastError('HF_DATABASE_UNAVAILABLE', { operation, waited, problem }, { cause: error })
  }
  if (!ofServer) return isOfArguments(error) ? ofArguments(error, operation) : error
  if (MISSING.has(state)) return new HoldfastError('HF_SCHEMA_DAMAGED', { schema, problem }, { cause: error })
  if (state === '42501') {
    const remedy = 'docs/operations/rights.md has the grants that a role needs.'
    return new HoldfastError('HF_NOT_PERMITTED', { operation: `run ${operation}`, problem, remedy }, { cause: error })
  }
  return new HoldfastError('HF_DATABASE_ERROR', { operation, state, problem }, { cause: error })
}

/** Undefined schema, table, function, column, object; a wrong type where a table or function is another one now. */
const MISSING = new Set(['3F000', '42P01', '42883', '42703', '42704', '42804', '42P13'])

function isPlainObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
}
