import { percentile } from '../../harness/percentile.js'
import type { Run, System, Task } from '../../harness/workload.js'
import { fiveSteps } from '../../libraries/processes/five-steps.js'
import type { ProcessLibrary } from '../../libraries/processes/process-library.js'
import { useBefore } from '../../libraries/processes/use-before.js'

/** Connections, prepared statements, compiled code. */
const WARM_UP = 20

/** One process at a time: from the call that starts it until it is known to be completed. */
export function latencySystem(library: ProcessLibrary): System {
  const { name, version, role, anythingLeft } = library
  return {
    name,
    version,
    role,
    anythingLeft,
    config: library.config,
    prepare: ({ connectionString, items }) => useBefore(library, connectionString, { body: fiveSteps({}), items }),
    open: (task) => openRun(library, task),
  }
}

async function openRun(library: ProcessLibrary, { connectionString, items }: Task): Promise<Run> {
  let steps: number[] = []
  const processes: number[] = []
  let isDone: () => void = () => undefined
  const host = await library.open(connectionString, fiveSteps({ took: (ms) => steps.push(ms), done: () => isDone() }))
  await host.run()

  async function one(place: number): Promise<number> {
    const done = new Promise<void>((resolve) => {
      isDone = resolve
    })
    const began = performance.now()
    // Not before its code is done: to ask all the while would slow its steps down.
    const id = await host.start(place)
    await done
    await host.ended(id)
    return performance.now() - began
  }

  for (let place = 0; place < WARM_UP; place += 1) await one(place)
  steps = []
  return {
    async work() {
      for (let place = 0; place < items; place += 1) processes.push(await one(WARM_UP + place))
    },
    figures: () => ({
      value: percentile(processes, 0.5),
      details: { p95: percentile(processes, 0.95), step: percentile(steps, 0.5) },
    }),
    close: () => host.close(),
  }
}
