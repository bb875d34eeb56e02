import type { Workload } from '../../harness/workload.js'
import { graphileLatency } from './graphile-worker.js'
import { holdfastLatency } from './holdfast.js'
import { latencySystem } from './latency-system.js'
import { pgBossLatency } from './pg-boss.js'

export const commandsLatency: Workload = {
  name: 'commands-latency',
  unit: 'ms (p50)',
  better: 'lower',
  measures: 'an idle worker and one command every 50 ms: from the call of send to the start of the handler',
  items: 400,
  systems: () =>
    [holdfastLatency, graphileLatency({ jobs: 24, localQueue: 500 }), graphileLatency({ jobs: 24 }), pgBossLatency].map(
      latencySystem,
    ),
}
