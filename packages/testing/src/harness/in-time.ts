/**
 * The error of a call that must fail within so many milliseconds; fails if the call has not ended by then. The time is that of a
 * timer which is set together with the call: where the machine stalls, both are late.
 */
export async function failsWithin(milliseconds: number, call: Promise<unknown>): Promise<unknown> {
  const ended = call.then(
    () => new Error('it did not fail'),
    (error: unknown) => error,
  )
  return endsWithin(milliseconds, ended)
}

/** The result of a call that must end within so many milliseconds. */
export async function endsWithin<T>(milliseconds: number, call: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it has not ended within ${milliseconds} ms`)), milliseconds)
  })
  try {
    return await Promise.race([call, late])
  } finally {
    clearTimeout(timer)
  }
}
