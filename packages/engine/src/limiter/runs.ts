/** Somebody who wants slots: how many, and how far ahead each of them may lie. */
export interface Asking {
  readonly count: number
  readonly maxWaitMs: number
  /** When it was asked, by this process's own clock. */
  readonly since: number
}

/** Neighbours that want the same are reserved for as one: a thousand waiters cost the database one line of arithmetic. */
export interface Run<Asker extends Asking> {
  readonly count: number
  /** What is left of the maximal wait. */
  readonly maxWaitMs: number
  /** The maximal wait that was asked for. */
  readonly askedMs: number
  readonly askers: readonly Asker[]
}

/** The slots of one asker: the n-th (from 0) is `firstMs + n * stepMs` from `atMs`; what lies before that is then. */
export interface Slots {
  readonly granted: number
  readonly firstMs: number
  readonly stepMs: number
  /** The moment of the reservation by the database's clock, in milliseconds since 1970. */
  readonly atMs: number
  /** When to ask again for what was not granted: then it would be, if nobody else came. */
  readonly retryAfterMs: number
}

/**
 * The runs of those who ask for slots of one key, in their order. The time that they have waited for the database counts
 * as waited: for a run it is that of its first, which waits for the longest.
 */
export function runsOf<Asker extends Asking>(askers: readonly Asker[], now: number): readonly Run<Asker>[] {
  const runs: { count: number; maxWaitMs: number; askedMs: number; askers: Asker[] }[] = []
  for (const asker of askers) {
    const last = runs.at(-1)
    if (last && last.askedMs === asker.maxWaitMs) {
      last.count += asker.count
      last.askers.push(asker)
    } else {
      const maxWaitMs = Math.max(0, asker.maxWaitMs - (now - asker.since))
      runs.push({ count: asker.count, maxWaitMs, askedMs: asker.maxWaitMs, askers: [asker] })
    }
  }
  return runs
}

/** Deals what a run has got to its askers: first come, first served. */
export function dealSlots<Asker extends Asking>(
  run: Run<Asker>,
  got: Omit<Slots, 'retryAfterMs'>,
): readonly { readonly asker: Asker; readonly slots: Slots }[] {
  const { stepMs, atMs } = got
  const retryAfterMs = Math.max(1, Math.ceil(got.firstMs + got.granted * stepMs - run.askedMs))
  let before = 0
  return run.askers.map((asker) => {
    const granted = Math.min(asker.count, Math.max(0, got.granted - before))
    const firstMs = got.firstMs + before * stepMs
    before += asker.count
    return { asker, slots: { granted, firstMs, stepMs, atMs, retryAfterMs } }
  })
}

/** How long it is until a slot. */
export function waitOf({ firstMs, stepMs }: Slots, nth = 0): number {
  return Math.max(0, firstMs + nth * stepMs)
}
