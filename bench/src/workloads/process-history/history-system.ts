import { percentile } from '../../harness/percentile.js'
import type { Run, System, Task } from '../../harness/workload.js'
import { fiveSteps } from '../../libraries/processes/five-steps.js'
import type { ProcessLibrary } from '../../libraries/processes/process-library.js'
import { useBefore } from '../../libraries/processes/use-before.js'
import { createTally } from '../commands-drain/tally.js'

/** Of all steps, at either end. */
const PART = 0.1

/** One process with a step per item, told apart at its end and at its start. */
export function historySystem(library: ProcessLibrary, share = 1): System {
  const { name, version, role, anythingLeft } = library
  return {
    name,
    version,
    role,
    anythingLeft,
    config: share === 1 ? library.config : { ...library.config, 'part of the steps': share },
    share,
    prepare: ({ connectionString, items }) => useBefore(library, connectionString, { body: fiveSteps({}), items }),
    open: (task) => openRun(library, task),
  }
}

async function openRun(library: ProcessLibrary, { connectionString, items }: Task): Promise<Run> {
  const steps: number[] = []
  const { full: done, add } = createTally(1)
  const host = await library.open(connectionString, async ({ step }) => {
    for (let place = 0; place < items; place += 1) {
      const began = performance.now()
      await step('again')
      steps.push(performance.now() - began)
    }
    add(1)
  })
  await host.run()
  return {
    async work() {
      const id = await host.start(0)
      await done
      await host.ended(id)
    },
    figures() {
      // Run more than once (a lost lease), its steps would be replayed ones and count for nothing.
      if (steps.length !== items) throw new Error(`${steps.length} steps were seen of ${items}`)
      const part = Math.ceil(items * PART)
      const end = percentile(steps.slice(-part), 0.5)
      const start = percentile(steps.slice(0, part), 0.5)
      return { value: end, details: { start, growth: end / start } }
    },
    close: () => host.close(),
  }
}
