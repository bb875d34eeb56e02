import type { Executor } from '../../kernel/database/executor.js'
import type { MergedRequest, SlotRequest, Slots } from '../merged-requests.js'

/** The outcome of a merged request. */
export type MergedResult =
  | ({ readonly outcome: 'reserved' } & Omit<Slots, 'retryAfterMs'>)
  | { readonly outcome: 'held' | 'unknown' }

interface Row {
  readonly run: number
  readonly outcome: 'reserved' | 'held' | 'unknown'
  readonly granted: number
  readonly first_us: number
  readonly step_us: number
  readonly at_us: number
}

/**
 * Reserves slots for requests of any number of keys in one statement; returns their results in order. `waitForLocks` waits a
 * little for a bucket that another transaction has locked; without it the result for such a bucket is `held`.
 */
export async function reserveSlots(
  executor: Executor,
  requests: readonly { readonly key: string; readonly merged: MergedRequest<SlotRequest> }[],
  waitForLocks: boolean,
): Promise<readonly MergedResult[]> {
  const rows = await executor.run<Row>(reserveStatement, [
    requests.map(({ key }) => key),
    requests.map(({ merged }) => merged.count),
    requests.map(({ merged }) => merged.maxWaitMs),
    waitForLocks,
  ])
  const results: MergedResult[] = requests.map(() => ({ outcome: 'held' }))
  for (const row of rows) results[row.run - 1] = resultOf(row)
  return results
}

function resultOf({ outcome, granted, first_us, step_us, at_us }: Row): MergedResult {
  if (outcome !== 'reserved') return { outcome }
  return { outcome, granted, firstMs: first_us / 1000, stepMs: step_us / 1000, atMs: at_us / 1000 }
}

const reserveStatement = {
  name: 'limits.reserve',
  text: `
    select run, outcome, granted, first_us, step_us, at_us
    from holdfast.reserve_slots($1::text[], $2::int[], $3::float8[], $4)`,
}
