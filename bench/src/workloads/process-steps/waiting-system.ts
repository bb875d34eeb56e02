import type { Run, System, Task } from '../../harness/workload.js'
import { fiveSteps } from '../../libraries/processes/five-steps.js'
import type { ProcessLibrary } from '../../libraries/processes/process-library.js'
import { useBefore } from '../../libraries/processes/use-before.js'
import { createTally } from '../commands-drain/tally.js'

/** A worker and processes that were started for it beforehand. */
export function waitingSystem(library: ProcessLibrary): System {
  const { name, version, role, anythingLeft } = library
  return {
    name,
    version,
    role,
    anythingLeft,
    config: { ...library.config, started: 'beforehand' },
    async prepare({ connectionString, items }) {
      await useBefore(library, connectionString, { body: fiveSteps({}), items })
      await library.fill(connectionString, items, 0)
    },
    open: (task) => openRun(library, task),
  }
}

async function openRun(library: ProcessLibrary, { connectionString, items }: Task): Promise<Run> {
  const tally = createTally(items)
  const host = await library.open(connectionString, fiveSteps({ done: () => tally.add(1) }))
  return {
    async work() {
      await host.run()
      await tally.full
    },
    close: () => host.close(),
  }
}
