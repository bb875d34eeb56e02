/** Counts to a number. */
export interface Tally {
  readonly add: (jobs: number) => void
  /** Resolves when the number is reached. */
  readonly full: Promise<void>
}

export function createTally(target: number): Tally {
  let count = 0
  const { promise: full, resolve } = deferred()
  return {
    add(jobs) {
      count += jobs
      if (count >= target) resolve()
    },
    full,
  }
}

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve: () => void = () => undefined
  const promise = new Promise<void>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}
