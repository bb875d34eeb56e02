import type { Workload } from '../../harness/workload.js'
import { flexibleGrants, holdfastGrants, uncoalescedGrants } from './grants.js'
import { flexibleRate, holdfastRate } from './rate-system.js'

/** How fast slots of one hot key are given out when the rate is no limit. */
export const limiter: Workload = {
  name: 'limiter',
  unit: 'grants/s',
  measures:
    'one hot key without a limit that matters: grants by callers of one process, and by callers that share nothing',
  items: 200_000,
  systems: ({ concurrency }) => [
    ...(concurrency === undefined ? [500, 50] : [concurrency]).map((callers) => holdfastGrants({ callers, share: 1 })),
    uncoalescedGrants({ callers: 8, share: 0.05 }),
    flexibleGrants({ callers: 500, connections: 8, share: 0.05 }),
    flexibleGrants({ callers: 50, connections: 8, share: 0.05 }),
  ],
}

/** Whether many workers stay below the rate, and how much of it they use. */
export const limiterRate: Workload = {
  name: 'limiter-rate',
  unit: '% of what is allowed',
  measures:
    'eight worker processes with demand for more than one key of 500/s allows: how much they use, and whether ever too much',
  items: 5_000,
  systems: () => [holdfastRate(8, 50), holdfastRate(8, 1), flexibleRate(8)],
}
