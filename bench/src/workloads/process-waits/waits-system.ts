import type { Run, System, Task } from '../../harness/workload.js'
import { waitBetweenSteps } from '../../libraries/processes/five-steps.js'
import type { ProcessLibrary } from '../../libraries/processes/process-library.js'
import { createTally } from '../commands-drain/tally.js'
import { untilWaiting } from './until-waiting.js'

/** A worker whose processes all wait; the clock runs from the first response until the last of them is completed. */
export function waitsSystem({ fill, open, waiting, ...about }: ProcessLibrary): System {
  return {
    ...about,
    prepare: ({ connectionString, items }) => fill(connectionString, items),
    open: (task) => openRun({ open, waiting }, task),
  }
}

async function openRun(
  { open, waiting }: Pick<ProcessLibrary, 'open' | 'waiting'>,
  { connectionString, items }: Task,
): Promise<Run> {
  const tally = createTally(items)
  const host = await open(connectionString, waitBetweenSteps({ done: () => tally.add(1) }))
  await host.run()
  await untilWaiting(connectionString, waiting, items)
  await host.learnIds?.()
  return {
    async work() {
      await host.respondAll(items)
      await tally.full
    },
    close: () => host.close(),
  }
}
