import type { Run, System, Task } from '../../harness/workload.js'
import { atOnce } from '../../libraries/processes/at-once.js'
import { fiveSteps } from '../../libraries/processes/five-steps.js'
import type { ProcessLibrary } from '../../libraries/processes/process-library.js'

/** Callers who run processes themselves, each waiting for the end of one before the next. The start is measured too. */
export function immediateSystem({ fill, open, waiting: _, ...about }: ProcessLibrary, callers: number): System {
  return {
    ...about,
    config: { ...about.config, started: `by ${callers} callers` },
    group: 'started by callers',
    prepare: ({ connectionString }) => fill(connectionString, 0),
    open: (task) => openRun(open, task, callers),
  }
}

async function openRun(open: ProcessLibrary['open'], { connectionString, items }: Task, callers: number): Promise<Run> {
  const host = await open(connectionString, fiveSteps({}))
  await host.run()
  return {
    work: () => atOnce(callers, items, async (place) => host.ended(await host.start(place))),
    close: () => host.close(),
  }
}
