import type { Workload } from '../../harness/workload.js'
import { absurd } from '../../libraries/processes/absurd.js'
import { dbos } from '../../libraries/processes/dbos.js'
import { holdfastProcesses } from '../../libraries/processes/holdfast.js'
import { openworkflow } from '../../libraries/processes/openworkflow.js'
import { historySystem } from './history-system.js'

/** It refuses a workflow with more than 1,000 steps. */
const SHARE_OF_OPENWORKFLOW = 0.2

export const processHistory: Workload = {
  name: 'process-history',
  unit: 'ms (p50)',
  better: 'lower',
  measures:
    'one process of thousands of steps: the last tenth of them; beside it the first tenth, and the end by the start',
  items: 5_000,
  systems: () => [
    ...holdfastProcesses({ concurrency: 50 }).map((library) => historySystem(library)),
    historySystem(dbos({ connections: 20 })),
    historySystem(openworkflow({ concurrency: 1, connections: 10 }), SHARE_OF_OPENWORKFLOW),
    ...absurd({ concurrency: 1, connections: 10, pollMs: 5 }).map((library) => historySystem(library)),
  ],
}
