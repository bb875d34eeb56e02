import type { Run, System, SystemOptions, Task } from '../../harness/workload.js'
import type { DrainingLibrary } from './drainer.js'
import { startSecondWorker } from './second-worker.js'
import { createTally } from './tally.js'

/** The library with one worker process, which is the measured one, or with a second one beside it. */
export function drainSystem(library: DrainingLibrary, processes: 1 | 2, options: SystemOptions): System {
  return {
    ...library,
    config: { ...library.config, processes },
    group: `${processes} processes`,
    open: (task) => open(library, task, processes === 2 ? options : undefined),
  }
}

/** With options it gets a second process, which finds its library by them. */
async function open(library: DrainingLibrary, task: Task, options: SystemOptions | undefined): Promise<Run> {
  const tally = createTally(task.items)
  const drainer = await library.open(task, tally.add)
  const second = options && (await startSecondWorker(library, { options, task }, tally.add))
  return {
    async work() {
      second?.start()
      await drainer.start()
      await tally.full
    },
    moreCpu: () => second?.cpu() ?? 0,
    async close() {
      await second?.stop()
      await drainer.close()
    },
  }
}
