import type { Workload } from '../../harness/workload.js'
import { executing, releasing, scheduling } from './million-system.js'
import { rated } from './rate-system.js'

/** Ours alone: no other library releases what it holds to executions of its own. */
export const dispatchMillion: Workload = {
  name: 'dispatch-million',
  unit: 'items/s',
  measures:
    'items for the same instant: scheduled, released to no-op processes, released and executed; batches at the end against the first',
  items: 1_000_000,
  systems: ({ concurrency = 200 }) => [scheduling, releasing(500), releasing(5_000), executing(500, concurrency)],
}

/** The rate limit under dispatch: whether the bound is kept, and how much of the rate is used. */
export const dispatchRate: Workload = {
  name: 'dispatch-rate',
  unit: '% of what is allowed',
  measures:
    'more is due than a limit of 1,000/s lets through for a minute: how much of it is used, and whether ever too much',
  items: 60_000,
  systems: () => [rated],
}
