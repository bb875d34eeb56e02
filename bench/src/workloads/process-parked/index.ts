import type { Workload } from '../../harness/workload.js'
import { holdfastProcesses } from '../../libraries/processes/holdfast.js'
import { parkedSystems } from './parked-system.js'

/** Ours alone: of the others, one keeps a waiting process in memory, and none parks a million in a time one would wait. */
export const processParked: Workload = {
  name: 'process-parked',
  unit: 'processes/s',
  measures:
    'new processes of two steps while a few and while a million others wait; bytes of each of those; ratio to a few',
  items: 1_000_000,
  systems: ({ concurrency = 200 }) => holdfastProcesses({ concurrency }).flatMap(parkedSystems),
}
