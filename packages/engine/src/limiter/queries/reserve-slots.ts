import type { Executor } from '../../kernel/database/executor.js'
import type { Asking, Run, Slots } from '../runs.js'

/** What became of a run. */
export type RunAnswer =
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
 * Reserves slots for runs of any number of keys in one statement; answers in their order. `patient` waits a little for a
 * bucket that somebody else has locked; without it the answer for those is 'held'.
 */
export async function reserveSlots(
  executor: Executor,
  runs: readonly { readonly key: string; readonly run: Run<Asking> }[],
  patient: boolean,
): Promise<readonly RunAnswer[]> {
  const rows = await executor.run<Row>(reserveStatement, [
    runs.map(({ key }) => key),
    runs.map(({ run }) => run.count),
    runs.map(({ run }) => run.maxWaitMs),
    patient,
  ])
  const answers: RunAnswer[] = runs.map(() => ({ outcome: 'held' }))
  for (const row of rows) answers[row.run - 1] = answerOf(row)
  return answers
}

function answerOf({ outcome, granted, first_us, step_us, at_us }: Row): RunAnswer {
  if (outcome !== 'reserved') return { outcome }
  return { outcome, granted, firstMs: first_us / 1000, stepMs: step_us / 1000, atMs: at_us / 1000 }
}

const reserveStatement = {
  name: 'limits.reserve',
  text: `
    select run, outcome, granted, first_us, step_us, at_us
    from holdfast.reserve_slots($1::text[], $2::int[], $3::float8[], $4)`,
}
