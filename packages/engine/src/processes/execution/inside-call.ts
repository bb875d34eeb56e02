import type { HoldfastError } from '../../kernel/errors.js'
import type { Call } from './calls.js'
import type { Execution } from './execution.js'

/** Whose own code runs right now, up to its first `await`. */
let current: Call | undefined

/**
 * Runs the own code of a step, side effect or transaction. A call of `ctx` in there would wait for a promise that never settles:
 * the code that makes it fails at once instead, with a code that says so.
 */
export function insideCall<Result>(
  { inside }: Execution,
  call: Call,
  code: () => Result | PromiseLike<Result>,
): Result | Promise<Result> {
  let misplaced: Error | undefined
  let fail = (error: Error) => {
    misplaced ??= error
  }
  const end = () => inside.delete(call)
  inside.set(call, (error) => fail(error))
  const before = current
  current = call
  let answer: Result | PromiseLike<Result>
  try {
    answer = code()
  } catch (error) {
    end()
    throw error
  } finally {
    current = before
  }
  if (!isPromise(answer)) {
    end()
    if (misplaced) throw misplaced
    return answer
  }
  const answering = answer
  return new Promise<Result>((resolve, reject) => {
    fail = reject
    if (misplaced) reject(misplaced)
    answering.then(resolve, reject)
    answering.then(end, end)
  })
}

const isPromise = <Result>(answer: Result | PromiseLike<Result>): answer is PromiseLike<Result> =>
  typeof answer === 'object' && answer !== null && 'then' in answer && typeof answer.then === 'function'

/**
 * A call of `ctx` where none belongs. Where it comes from is certain before the first `await` of a call's own code; after it,
 * only if no other call runs. With several, each is aborted and has the grace time to end by itself.
 */
export function failWhoCalled(execution: Execution, error: HoldfastError): void {
  const { inside } = execution
  const culprit = current && inside.has(current) ? current : inside.size === 1 ? [...inside.keys()][0] : undefined
  if (culprit) {
    inside.get(culprit)?.(error)
    return
  }
  execution.cancelCalls()
  for (const [call, fail] of inside) {
    setTimeout(() => {
      if (inside.get(call) === fail) fail(error)
    }, execution.parts.abortGraceMs).unref()
  }
}
