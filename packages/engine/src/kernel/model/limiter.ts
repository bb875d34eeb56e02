/**
 * One slot: how long it is until it comes, counted from the response, and when that is by the database's clock (milliseconds
 * since 1970); or from when on there may be one.
 */
export type Reservation =
  | { readonly granted: true; readonly waitMs: number; readonly atMs: number }
  | { readonly granted: false; readonly retryAfterMs: number }

/** What models need of the limiter: token buckets, exact across all workers. Waiting for a slot is up to the caller. */
export interface Limiter {
  /** Takes one slot if it lies within the wait. A slot that the caller does not use is wasted. */
  reserve(key: string, maxWaitMs: number, signal?: AbortSignal): Promise<Reservation>
  /**
   * Takes up to `count` slots that are within the wait. Default wait: 0, only slots that are free now. Returns how
   * long it is until each.
   */
  reserveMany(
    key: string,
    count: number,
    maxWaitMs?: number,
  ): Promise<{
    readonly granted: number
    readonly waitsMs: readonly number[]
    /** The times of the slots by the database's clock, in milliseconds since 1970. */
    readonly atsMs: readonly number[]
    readonly retryAfterMs: number
  }>
  /** Accepts no more calls; those under way get their slots. */
  close(timeout?: number): Promise<void>
}
