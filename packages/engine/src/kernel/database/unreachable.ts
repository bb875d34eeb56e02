import { HoldfastError } from '../errors.js'
import { codeOf } from './transient.js'

/** One clear error for all the ways in which a connection cannot be made. */
export function unreachable(target: string, cause: unknown): HoldfastError<'HF_DATABASE_UNREACHABLE'> {
  return new HoldfastError('HF_DATABASE_UNREACHABLE', { target, problem: problemOf(cause) }, { cause })
}

function problemOf(error: unknown): string {
  // Node tries IPv4 and IPv6 of a name and wraps what each of them said; its own message is empty.
  if (error instanceof AggregateError && error.message === '') return error.errors.map(problemOf).join('; ')
  const message = error instanceof Error ? error.message : String(error)
  switch (codeOf(error)) {
    case 'ECONNREFUSED':
      return `nothing listens there (${message})`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the host is unknown (${message})`
    case 'ENOENT':
      return `there is no such socket (${message})`
    default:
      return message
  }
}
