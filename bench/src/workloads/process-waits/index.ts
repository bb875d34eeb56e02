import type { Workload } from '../../harness/workload.js'
import { absurd } from '../../libraries/processes/absurd.js'
import { dbos } from '../../libraries/processes/dbos.js'
import { holdfastProcesses } from '../../libraries/processes/holdfast.js'
import { openworkflow } from '../../libraries/processes/openworkflow.js'
import { waitsSystem } from './waits-system.js'

export const processWaits: Workload = {
  name: 'process-waits',
  unit: 'processes/s',
  measures: 'processes that wait between two steps, from the first response to the last completion',
  items: 1_000,
  systems: ({ concurrency = 200 }) =>
    [
      ...holdfastProcesses({ concurrency }),
      dbos({ connections: 20 }),
      openworkflow({ concurrency: 100, connections: 20 }),
      ...absurd({ concurrency: 200, connections: 10, pollMs: 10 }),
    ].map(waitsSystem),
}
