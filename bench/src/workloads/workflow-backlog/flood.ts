import { setTimeout as sleep } from 'node:timers/promises'
import { defineWorkflow, holdfast } from 'holdfast'
import { newId } from 'holdfast/internal'
import type { Run, System, Task } from '../../harness/workload.js'
import { version } from '../../libraries/holdfast.js'
import { anythingLeft, NOOP, runWorkflows } from '../../libraries/workflows.js'

/** Points per second, so that nobody has to watch for the 200 s that the default takes from 0 to 100. */
const AGING = 20
const LOWEST = 0
const PROMISED_MS = ((100 - LOWEST) / AGING) * 1000
/** More than the worker has slots for, each started again when it has been called: there is always one in front. */
const PER_SLOT = 10
/** So that the slots are what is short, on any machine. */
const CALL_MS = 20
/** Before the low one is started, so that it finds the queue full. */
const FULL_AFTER_MS = 500

const high = defineWorkflow('test', 'high').step('only', NOOP, { priority: 100 }).build()
const low = defineWorkflow('test', 'low').step('only', NOOP, { priority: LOWEST }).build()

/**
 * A worker that never comes to the end of a queue of priority 100, and one step of priority 0: how long it waits. What
 * aging promises is that nothing is taken before it that was queued when it had already reached 100.
 */
export function underFlood(concurrency: number): System {
  return {
    name: 'holdfast low priority',
    version,
    role: 'holdfast',
    config: { concurrency, aging: AGING, flood: concurrency * PER_SLOT },
    group: 'flood',
    anythingLeft,
    prepare: async ({ connectionString }) => (await holdfast({ connectionString })).close(),
    open: (task) => openFlood(task, concurrency),
  }
}

async function openFlood({ connectionString }: Task, concurrency: number): Promise<Run> {
  const hf = await holdfast({ connectionString })
  await hf.workflows.configure({ aging: AGING }, { actor: 'benchmark', reason: 'measured with this rate' })
  const waiting = new Map<string, () => void>()
  let overtaking = 0
  await runWorkflows(hf, {
    concurrency,
    called({ instanceId }) {
      overtaking += 1
      waiting.get(instanceId)?.()
      waiting.delete(instanceId)
      return sleep(CALL_MS)
    },
  })

  async function runOne(definition: typeof high): Promise<void> {
    const id = newId()
    const called = new Promise<void>((resolve) => waiting.set(id, resolve))
    await hf.start(definition, null, { id })
    await called
  }

  let waited = 0
  return {
    async work() {
      let flooding = true
      const flood = Array.from({ length: concurrency * PER_SLOT }, async () => {
        while (flooding) await runOne(high)
      })
      await sleep(FULL_AFTER_MS)
      overtaking = 0
      const began = performance.now()
      await runOne(low)
      waited = performance.now() - began
      flooding = false
      await Promise.all(flood)
    },
    figures: () => ({ value: waited, details: { promised: PROMISED_MS, overtaking }, costItems: overtaking }),
    close: () => hf.close(),
  }
}
