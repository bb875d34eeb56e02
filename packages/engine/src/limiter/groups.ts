import type { Outcome } from '../kernel/batching/flusher.js'
import type { Executor } from '../kernel/database/executor.js'
import { isTransient } from '../kernel/database/transient.js'
import { distributeSlots, type MergedRequest, mergeRequests, type SlotRequest, type Slots } from './merged-requests.js'
import { type MergedResult, reserveSlots } from './queries/reserve-slots.js'

/** A request of a caller that waits for its slots. */
export interface PendingRequest extends SlotRequest {
  /** The caller no longer waits: nothing is reserved for it, unless the statement has gone out. */
  isAbandoned: boolean
  readonly resolve: (slots: Slots | 'unknown') => void
  readonly reject: (error: unknown) => void
}

/** All requests for slots of one key at about the same moment: one write of the group commit. */
export interface Group {
  readonly key: string
  readonly requests: PendingRequest[]
  /** The group has gone out: later requests form the next group. */
  isSent: boolean
  /** Another transaction has locked its bucket: from now on the group waits for it, apart from the other groups. */
  isLocked: boolean
}

export type Distributed = readonly { readonly request: PendingRequest; readonly slots: Slots | 'unknown' }[]

/**
 * Reserves slots for the groups in one statement. It never waits for a lock while it holds others, so a group whose bucket
 * is locked comes back here later, and then has a statement of its own, which waits a little.
 */
export async function flushGroups(db: Executor, groups: readonly Group[]): Promise<readonly Outcome<Distributed>[]> {
  if (groups.length === 1) return reserve(db, groups, true)
  if (!groups.every(({ isLocked }) => isLocked)) return reserve(db, groups, false)
  const results = await Promise.all(groups.map((group) => reserveApart(db, group)))
  return results.flat()
}

/** An error of one group must not repeat the others, which would waste the slots that they got. */
async function reserveApart(db: Executor, group: Group): Promise<readonly Outcome<Distributed>[]> {
  try {
    return await reserve(db, [group], true)
  } catch (error) {
    if (!isTransient(error)) throw error
    return ['held']
  }
}

async function reserve(
  db: Executor,
  groups: readonly Group[],
  waitForLocks: boolean,
): Promise<readonly Outcome<Distributed>[]> {
  const now = performance.now()
  const toReserve = groups.map((group) => {
    group.isSent = true
    const wanted = group.requests.filter(({ isAbandoned }) => !isAbandoned)
    return { group, merged: mergeRequests(wanted, now) }
  })
  const all = toReserve.flatMap(({ group: { key }, merged }) => merged.map((one) => ({ key, merged: one })))
  const results = all.length === 0 ? [] : await reserveSlots(db, all, waitForLocks)
  let place = 0
  return toReserve.map(({ group, merged }) => {
    const own = results.slice(place, place + merged.length)
    place += merged.length
    group.isLocked = own.some(({ outcome }) => outcome === 'held')
    return group.isLocked ? 'held' : { done: own.flatMap((result, nth) => distribute(merged[nth], result)) }
  })
}

function distribute(merged: MergedRequest<PendingRequest> | undefined, result: MergedResult): Distributed {
  if (merged === undefined) return []
  if (result.outcome !== 'reserved') return merged.requests.map((request) => ({ request, slots: 'unknown' }))
  return distributeSlots(merged, result)
}
