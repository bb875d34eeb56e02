import { tinyFinishes, tinySource } from '@holdfast/acceptance/tiny-model'
import { createWorkLoop, newId, openDatabase } from 'holdfast/internal'
import { versionOf } from '../../harness/version.js'
import type { Run, System, Task } from '../../harness/workload.js'
import { anythingLeft, fillTiny, TYPE } from './tiny-items.js'

/** The kernel as a model uses it: leases, fence, group commit, and a real async function for every item. */
export function holdfastLoop(config: { readonly concurrency: number }): System {
  return {
    name: 'holdfast loop',
    version: versionOf('holdfast'),
    role: 'holdfast',
    config,
    anythingLeft,
    prepare: (task) => fillTiny(task),
    open: (task) => open(task, config.concurrency),
  }
}

async function open({ connectionString, items }: Task, concurrency: number): Promise<Run> {
  const db = await openDatabase({ connectionString })
  const finishes = tinyFinishes(db)
  let done = 0
  let allDone: () => void = () => undefined
  const loop = createWorkLoop({
    source: tinySource(db, [TYPE]),
    worker: 'bench',
    concurrency,
    leaseMs: 30_000,
    pollMs: 1_000,
    async run({ id, epoch }) {
      await finishes.write({ id, epoch, token: newId() })
      done += 1
      if (done === items) allDone()
    },
  })
  return {
    work: () =>
      new Promise((resolve) => {
        allDone = resolve
        loop.start()
      }),
    async close() {
      await loop.stop()
      await finishes.close()
      await db.close()
    },
  }
}
