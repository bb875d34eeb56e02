import type { Workload } from '../../harness/workload.js'
import { absurd } from '../../libraries/processes/absurd.js'
import { dbos } from '../../libraries/processes/dbos.js'
import { holdfastProcesses } from '../../libraries/processes/holdfast.js'
import { openworkflow } from '../../libraries/processes/openworkflow.js'
import { callersSystem } from './callers-system.js'
import { waitingSystem } from './waiting-system.js'

export const CALLERS = 50

/** Every library with the settings that were found to be best for it. */
export const processSteps: Workload = {
  name: 'process-steps',
  unit: 'processes/s',
  measures:
    'processes of five no-op steps, each step recorded: started beforehand for one worker, or by callers meanwhile',
  items: 2_000,
  systems({ concurrency }) {
    const ours = (concurrency === undefined ? [50, 200, 1000] : [concurrency]).flatMap((slots) =>
      holdfastProcesses({ concurrency: slots }),
    )
    const theirs = [
      dbos({ connections: 10 }),
      openworkflow({ concurrency: 100, connections: 20 }),
      openworkflow({ concurrency: 400, connections: 20 }),
      ...absurd({ concurrency: 200, connections: 10, pollMs: 10 }),
    ]
    // Where a caller can run a process itself, without a worker that has to find it.
    const direct = [...holdfastProcesses({ concurrency: CALLERS }), dbos({ connections: 10 })]
    return [...[...ours, ...theirs].map(waitingSystem), ...direct.map((library) => callersSystem(library, CALLERS))]
  },
}
