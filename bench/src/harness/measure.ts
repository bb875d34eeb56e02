import { type Observed, openObserver, type Spent } from './costs/observer.js'
import type { System, Task } from './workload.js'

/** One system in one round. Costs that cannot be known here are null. */
export interface Measurement {
  readonly value: number
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
      const cpuBefore = process.cpuUsage()
      const began = performance.now()
      await run.work()
      const ended = await observer.untilNothingLeft(system.anythingLeft)
      const cpu = process.cpuUsage(cpuBefore)
      const costs = perItem(before, await observer.look(), task.items)
      return {
        value: task.items / ((ended - began) / 1000),
        ...costs,
        nodeCpuPerItem: (cpu.user + cpu.system) / task.items,
        peakRssMb: process.resourceUsage().maxRSS / 1024,
      }
    } finally {
      await run.close()
    }
  } finally {
    await observer.close()
  }
}

function perItem(before: Spent, after: Spent, items: number) {
  const share = (from: number | null, to: number | null) => (from === null || to === null ? null : (to - from) / items)
  return {
    walBytesPerItem: (after.walBytes - before.walBytes) / items,
    statementsPerItem: share(before.statements, after.statements),
    postgresCpuPerItem: share(before.cpuMicroseconds, after.cpuMicroseconds),
  }
}
