import type { Workload } from '../../harness/workload.js'
import { backlogSystems } from './backlog-system.js'
import { graphileClaim } from './graphile-worker.js'
import { holdfastClaim } from './holdfast.js'
import { pgBossClaim } from './pg-boss.js'
import { pgmqClaim } from './raw-pgmq.js'

export const commandsBacklog: Workload = {
  name: 'commands-backlog',
  unit: 'ms (p50)',
  better: 'lower',
  measures: 'a claim of 100 commands with few and with millions waiting, and behind delayed ones; ratio to few waiting',
  items: 5_000_000,
  systems: () => [holdfastClaim, graphileClaim, pgBossClaim, pgmqClaim].flatMap(backlogSystems),
}
