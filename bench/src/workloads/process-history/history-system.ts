import { percentile } from '../../harness/percentile.js'
import type { Run, System, Task } from '../../harness/workload.js'
import type { ProcessLibrary } from '../../libraries/processes/process-library.js'

/** Of all steps, at either end. */
const PART = 0.1

/** One process with a step per item, told apart at its end and at its start. */
export function historySystem({ fill, open, waiting: _, ...about }: ProcessLibrary, share = 1): System {
  return {
    ...about,
    config: share === 1 ? about.config : { ...about.config, 'part of the steps': share },
    share,
    prepare: ({ connectionString }) => fill(connectionString, 0),
    open: (task) => openRun(open, task),
  }
}

async function openRun(open: ProcessLibrary['open'], { connectionString, items }: Task): Promise<Run> {
  const steps: number[] = []
  const host = await open(connectionString, async ({ step }) => {
    for (let place = 0; place < items; place += 1) {
      const began = performance.now()
      await step('again')
      steps.push(performance.now() - began)
    }
  })
  await host.run()
  return {
    async work() {
      await host.ended(await host.start(0))
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
