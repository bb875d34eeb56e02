import type { Workload } from '../../harness/workload.js'
import { absurd } from '../../libraries/processes/absurd.js'
import { dbos } from '../../libraries/processes/dbos.js'
import { holdfastProcesses } from '../../libraries/processes/holdfast.js'
import { openworkflow } from '../../libraries/processes/openworkflow.js'
import { immediateSystem } from './immediate-system.js'
import { waitingSystem } from './waiting-system.js'

const CALLERS = 50

/** Everybody with the settings that were found to be best for them. */
export const processSteps: Workload = {
  name: 'process-steps',
  unit: 'processes/s',
  measures: 'processes of five no-op steps, each step recorded: run by one worker, or by the callers that start them',
  items: 2_000,
  systems({ concurrency }) {
    const ours = (concurrency === undefined ? [50, 200, 1000] : [concurrency]).flatMap((slots) =>
      holdfastProcesses({ concurrency: slots }),
    )
    const theirs = dbos({ connections: 20 })
    return [
      ...[
        ...ours,
        theirs,
        openworkflow({ concurrency: 100, connections: 10 }),
        ...absurd({ concurrency: 200, connections: 20, pollMs: 250 }),
      ].map(waitingSystem),
      ...[...holdfastProcesses({ concurrency: CALLERS }), theirs].map((library) => immediateSystem(library, CALLERS)),
    ]
  },
}
