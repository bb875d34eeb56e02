import { countReleasable } from '../queries/finish-cycle.js'
import type { DispatchConfig } from '../queries/read-config.js'
import type { CycleParts } from './parts.js'

/** How many items a cycle may release, and when each may start where a rate limit says so (milliseconds since 1970). */
export interface Grant {
  readonly most: number
  readonly slots?: readonly number[]
  /** How long it is until there may be more. */
  readonly retryAfterMs: number
}

const SHORTEST_LOOK_AHEAD = 1_000

/**
 * Asks the rate limit, if there is one, for as many slots as there are items due, up to one cycle ahead. The
 * moments that it grants are the items' start times, so its bound holds exactly, whoever else uses the same key.
 */
export async function grantSlots({ db, limiter }: CycleParts, config: DispatchConfig): Promise<Grant> {
  const { itemType, batchSize, rateLimitKey, dispatchInterval } = config
  if (rateLimitKey === null) return { most: batchSize, retryAfterMs: 0 }
  const wanted = await countReleasable(db, itemType, batchSize)
  if (wanted === 0) return { most: 0, slots: [], retryAfterMs: 0 }
  const lookAheadMs = Math.max(dispatchInterval, SHORTEST_LOOK_AHEAD)
  const { granted, atsMs, retryAfterMs } = await limiter.reserveMany(rateLimitKey, wanted, lookAheadMs)
  return { most: granted, slots: atsMs, retryAfterMs }
}
