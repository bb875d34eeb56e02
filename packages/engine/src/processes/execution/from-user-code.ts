import { HoldfastError } from '../../kernel/errors.js'
import { describeThrown } from '../../kernel/failure/thrown.js'

/** Calls a piece of the user's code that must not throw; what it throws all the same becomes an error that names the piece. */
export function fromUserCode<Result>(
  piece: () => Result,
  toError: (problem: string, cause: unknown) => HoldfastError,
): Result {
  try {
    return piece()
  } catch (thrown) {
    const { message } = describeThrown(thrown)
    throw toError(thrown instanceof HoldfastError ? `${thrown.code}: ${message}` : message, thrown)
  }
}
