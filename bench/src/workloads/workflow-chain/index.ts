import type { Workload } from '../../harness/workload.js'
import { chain } from '../../libraries/workflows.js'
import { CALLERS, processSteps } from '../process-steps/index.js'
import { waitingWorkflows, workflowsOfCallers } from './workflow-systems.js'

/** Nobody else has declared workflows: compared with those who run the same five steps as code, ourselves among them. */
export const workflowChain: Workload = {
  name: 'workflow-chain',
  unit: 'workflows/s',
  measures: 'workflows of five no-op steps beside processes of the same steps, ours and the peers’ of process-steps',
  items: 2_000,
  systems(options) {
    const { concurrency } = options
    const slots = concurrency === undefined ? [50, 200, 1000] : [concurrency]
    return [
      ...slots.map((each) => waitingWorkflows(chain, each)),
      workflowsOfCallers(chain, CALLERS),
      ...processSteps.systems(options),
    ]
  },
}
