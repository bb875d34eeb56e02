import type { Workload } from '../../harness/workload.js'
import { holdfastProcesses } from '../../libraries/processes/holdfast.js'
import { fork } from '../../libraries/workflows.js'
import { waitingWorkflows } from '../workflow-chain/workflow-systems.js'
import { forkedProcesses } from './forked-processes.js'

/** Ours alone: what a declared fork costs beside the same fork as code. */
export const workflowFork: Workload = {
  name: 'workflow-fork',
  unit: 'workflows/s',
  measures: 'workflows of eight no-op branches and a join; ratio to processes that await eight steps at once',
  items: 2_000,
  systems({ concurrency }) {
    const slots = concurrency === undefined ? [200, 1000] : [concurrency]
    return slots.flatMap((each) => [
      { ...waitingWorkflows(fork, each), group: String(each) },
      ...holdfastProcesses({ concurrency: each }).map((library) => ({
        ...forkedProcesses(library),
        group: String(each),
        baseline: true,
      })),
    ])
  },
}
