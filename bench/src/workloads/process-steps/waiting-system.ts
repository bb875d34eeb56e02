import type { Run, System, Task } from '../../harness/workload.js'
import { fiveSteps } from '../../libraries/processes/five-steps.js'
import type { ProcessLibrary } from '../../libraries/processes/process-library.js'
import { createTally } from '../commands-drain/tally.js'

/** A worker and processes that were started for it beforehand. */
export function waitingSystem({ fill, open, waiting: _, ...about }: ProcessLibrary): System {
  return {
    ...about,
    config: { ...about.config, started: 'for a worker' },
    group: 'started for a worker',
    prepare: ({ connectionString, items }) => fill(connectionString, items),
    open: (task) => openRun(open, task),
  }
}

async function openRun(open: ProcessLibrary['open'], { connectionString, items }: Task): Promise<Run> {
  const tally = createTally(items)
  const host = await open(connectionString, fiveSteps({ done: () => tally.add(1) }))
  return {
    async work() {
      await host.run()
      await tally.full
    },
    close: () => host.close(),
  }
}
