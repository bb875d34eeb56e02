/**
 * Fault points. Every statement of ours has two, `before <name>` and `after <name>`; a database is opened with one
 * function that is called for all of them.
 */
export type Faults = (point: string) => void | Promise<void>

/** Kills this process, as `kill -9` would, when it passes the point for the given time (the first by default). */
export function dieAt(point: string, time = 1): Faults {
  let passed = 0
  return (here) => {
    if (here !== point) return
    passed += 1
    if (passed === time) process.kill(process.pid, 'SIGKILL')
  }
}

/** Collects the points that are passed, so that a test can go through all of them one by one. */
export function recordPoints(): { readonly faults: Faults; readonly points: readonly string[] } {
  const points: string[] = []
  return { points, faults: (point) => void points.push(point) }
}

/** Holds all work that passes the point until it is released. */
export function holdAt(point: string): { readonly faults: Faults; readonly reached: Promise<void>; release(): void } {
  const gate = withResolvers()
  const arrival = withResolvers()
  return {
    faults: (here) => {
      if (here !== point) return
      arrival.resolve()
      return gate.promise
    },
    reached: arrival.promise,
    release: gate.resolve,
  }
}

/**
 * A kill within this process: from the given point on, counted over all of them, no code gets past another
 * point. The test ends its connections, as the system would end those of a process that was killed.
 */
export function stopDeadAt(count: number): {
  readonly faults: Faults
  readonly died: Promise<void>
  readonly dead: boolean
} {
  const death = withResolvers()
  const never = new Promise<void>(() => undefined)
  let passed = 0
  return {
    faults: () => {
      passed += 1
      if (passed < count) return
      death.resolve()
      return never
    },
    died: death.promise,
    get dead() {
      return passed >= count
    },
  }
}

function withResolvers(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {}
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}
