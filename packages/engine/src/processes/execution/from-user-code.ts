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
    if (thrown instanceof HoldfastError && thrown.code === 'HF_MUST_NOT_BE_ASYNC') throw thrown
    const { message } = describeThrown(thrown)
    throw toError(thrown instanceof HoldfastError ? `${thrown.code}: ${message}` : message, thrown)
  }
}

/**
 * What a reducer or condition returned, unless that is a promise: it would decide later, by something that is not on record.
 * What becomes of the promise is of no interest, and must not end the program.
 */
export function settled(answer: unknown, what: string): unknown {
  if (typeof answer !== 'object' || answer === null || !('then' in answer) || typeof answer.then !== 'function') {
    return answer
  }
  Promise.resolve(answer).catch(() => undefined)
  throw new HoldfastError('HF_MUST_NOT_BE_ASYNC', { what })
}
