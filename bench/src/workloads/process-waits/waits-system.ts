import type { Run, System, Task } from '../../harness/workload.js'
import { waitBetweenSteps } from '../../libraries/processes/five-steps.js'
import type { ProcessLibrary } from '../../libraries/processes/process-library.js'
import { untilWaiting } from '../../libraries/processes/until-waiting.js'
import { useBefore } from '../../libraries/processes/use-before.js'
import { createTally } from '../commands-drain/tally.js'

/** A worker whose processes all wait; the clock runs from the first response until the last of them is completed. */
export function waitsSystem(library: ProcessLibrary): System {
  const { name, version, role, config, anythingLeft } = library
  return {
    name,
    version,
    role,
    config,
    anythingLeft,
    async prepare({ connectionString, items }) {
      await useBefore(library, connectionString, { body: waitBetweenSteps({}), waits: true, items })
      await library.fill(connectionString, items, 0)
    },
    open: (task) => openRun(library, task),
  }
}

async function openRun(library: ProcessLibrary, { connectionString, items }: Task): Promise<Run> {
  const tally = createTally(items)
  const host = await library.open(connectionString, waitBetweenSteps({ done: () => tally.add(1) }))
  await host.run()
  await untilWaiting(connectionString, library.waiting, items)
  await host.learnIds?.()
  const places = Array.from({ length: items }, (_, place) => place)
  return {
    async work() {
      await host.respondAll(places)
      await tally.full
    },
    close: () => host.close(),
  }
}
