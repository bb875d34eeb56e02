/** The database's clock as an execution knows it: the time of its claim, and what has passed here since. */
export function executionClock(databaseMs: number, heardAt = performance.now()): () => number {
  return () => databaseMs + (performance.now() - heardAt)
}

/** Lets everything that is ready run: what user code does after a record ends here. */
export function drain(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
