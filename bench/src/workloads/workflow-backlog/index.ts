import type { Workload } from '../../harness/workload.js'
import { backlogCases } from './claims.js'
import { underFlood } from './flood.js'

export const workflowBacklog: Workload = {
  name: 'workflow-backlog',
  unit: 'ms',
  better: 'lower',
  measures:
    'a claim of 100 steps of mixed priorities, the first and the last of a few and of a million; how long a low one waits under a flood of high ones',
  items: 1_000_000,
  systems: ({ concurrency = 10 }) => [...backlogCases, underFlood(concurrency)],
}
