import { type Observed, openObserver, type Spent } from './costs/observer.js'
import type { Run, System, Task } from './workload.js'

/** One system in one round. Costs that cannot be known here are null. */
export interface Measurement {
  readonly value: number
  /** More in the same unit. */
  readonly details: Readonly<Record<string, number>>
  readonly walBytesPerItem: number
  readonly statementsPerItem: number | null
  readonly nodeCpuPerItem: number
  readonly postgresCpuPerItem: number | null
  readonly peakRssMb: number
}

/** Lets a system do its work in this process and database, with the clock running. */
export async function measure(system: System, task: Task, observed: Observed): Promise<Measurement> {
  const observer = await openObserver(observed)
  try {
    const run = await system.open(task)
    try {
      const before = await observer.look()
      const cpuBefore = cpuOf(run)
      const began = performance.now()
      await run.work()
      const ended = await observer.untilNothingLeft(system.anythingLeft)
      const cpu = cpuOf(run) - cpuBefore
      const {
        value,
        details = {},
        costItems = task.items,
      } = run.figures?.() ?? {
        value: task.items / ((ended - began) / 1000),
      }
      return {
        value,
        details,
        ...perItem(before, await observer.look(), costItems),
        nodeCpuPerItem: cpu / costItems,
        peakRssMb: process.resourceUsage().maxRSS / 1024,
      }
    } finally {
      await run.close()
    }
  } finally {
    await observer.close()
  }
}

/** Microseconds of this process and of those that the run has started. */
function cpuOf(run: Run): number {
  const { user, system } = process.cpuUsage()
  return user + system + (run.moreCpu?.() ?? 0)
}

function perItem(before: Spent, after: Spent, items: number) {
  const share = (from: number | null, to: number | null) => (from === null || to === null ? null : (to - from) / items)
  return {
    walBytesPerItem: (after.walBytes - before.walBytes) / items,
    statementsPerItem: share(before.statements, after.statements),
    postgresCpuPerItem: share(before.cpuMicroseconds, after.cpuMicroseconds),
  }
}
