/** A request for slots: how many, and how far ahead each of them may lie. */
export interface SlotRequest {
  readonly count: number
  readonly maxWaitMs: number
  /** When the request was made, by this process's own clock. */
  readonly since: number
}

/** Neighbouring requests with the same wait, reserved as one: a thousand of them cost the database one row. */
export interface MergedRequest<Request extends SlotRequest> {
  readonly count: number
  /** The part of the maximal wait that is left. */
  readonly maxWaitMs: number
  /** The maximal wait that was requested. */
  readonly requestedWaitMs: number
  readonly requests: readonly Request[]
}

/** The slots of one request: slot n (from 0) is `firstMs + n * stepMs` after `atMs`; a slot in the past is at `atMs`. */
export interface Slots {
  readonly granted: number
  readonly firstMs: number
  readonly stepMs: number
  /** The moment of the reservation by the database's clock, in milliseconds since 1970. */
  readonly atMs: number
  /** When to request again what was not granted: it would then be granted, without requests of others. */
  readonly retryAfterMs: number
}

/**
 * Merges the requests for slots of one key, in their order. The time that a request has waited for the database counts
 * towards its maximal wait; a merged request has that of its first, which has waited the longest.
 */
export function mergeRequests<Request extends SlotRequest>(
  requests: readonly Request[],
  now: number,
): readonly MergedRequest<Request>[] {
  const merged: { count: number; maxWaitMs: number; requestedWaitMs: number; requests: Request[] }[] = []
  for (const request of requests) {
    const last = merged.at(-1)
    if (last && last.requestedWaitMs === request.maxWaitMs) {
      last.count += request.count
      last.requests.push(request)
    } else {
      const maxWaitMs = Math.max(0, request.maxWaitMs - (now - request.since))
      merged.push({ count: request.count, maxWaitMs, requestedWaitMs: request.maxWaitMs, requests: [request] })
    }
  }
  return merged
}

/** Distributes the slots of a merged request to its requests: first come, first served. */
export function distributeSlots<Request extends SlotRequest>(
  merged: MergedRequest<Request>,
  got: Omit<Slots, 'retryAfterMs'>,
): readonly { readonly request: Request; readonly slots: Slots }[] {
  const { stepMs, atMs } = got
  const retryAfterMs = Math.max(1, Math.ceil(got.firstMs + got.granted * stepMs - merged.requestedWaitMs))
  let before = 0
  return merged.requests.map((request) => {
    const granted = Math.min(request.count, Math.max(0, got.granted - before))
    const firstMs = got.firstMs + before * stepMs
    before += request.count
    return { request, slots: { granted, firstMs, stepMs, atMs, retryAfterMs } }
  })
}

/** How long it is until a slot. */
export function waitOf({ firstMs, stepMs }: Slots, nth = 0): number {
  return Math.max(0, firstMs + nth * stepMs)
}
