import type { Workload } from '../../harness/workload.js'
import { absurd } from '../../libraries/processes/absurd.js'
import { dbos } from '../../libraries/processes/dbos.js'
import { holdfastProcesses } from '../../libraries/processes/holdfast.js'
import { openworkflow } from '../../libraries/processes/openworkflow.js'
import { latencySystem } from './latency-system.js'

export const processLatency: Workload = {
  name: 'process-latency',
  unit: 'ms (p50)',
  better: 'lower',
  measures: 'one process of five no-op steps at a time, from its start to its end; and one of its steps',
  items: 200,
  systems: () =>
    [
      ...holdfastProcesses({ concurrency: 50 }),
      dbos({ connections: 20 }),
      openworkflow({ concurrency: 1, connections: 10 }),
      ...absurd({ concurrency: 1, connections: 10, pollMs: 5 }),
    ].map(latencySystem),
}
