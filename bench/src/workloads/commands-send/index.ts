import type { Workload } from '../../harness/workload.js'
import { graphileSend } from './graphile-worker.js'
import { holdfastSend } from './holdfast.js'
import { pgBossSend } from './pg-boss.js'
import { pgmqSend } from './raw-pgmq.js'
import { sendSystem, ways } from './send-system.js'

export const commandsSend: Workload = {
  name: 'commands-send',
  unit: 'commands/s',
  measures: 'sending: one by one, by 50 callers at once, and in bulk, each until it is committed',
  items: 50_000,
  systems: () =>
    ways.flatMap((way) =>
      [holdfastSend, graphileSend, pgBossSend, pgmqSend].map((library) => sendSystem(library, way)),
    ),
}
