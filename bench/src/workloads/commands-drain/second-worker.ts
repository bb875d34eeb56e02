import { fork } from 'node:child_process'
import { once } from 'node:events'
import { titleOf } from '../../harness/report/title.js'
import type { SystemOptions, Task } from '../../harness/workload.js'
import type { DrainingLibrary } from './drainer.js'

/** What the second process is told with its argument. */
export interface SecondOrder {
  readonly options: SystemOptions
  readonly library: string
  readonly task: Task
}

/** What it tells, again and again: how many jobs since the last time, and how much CPU so far. */
export interface SecondReport {
  readonly jobs: number
  readonly cpu: number
}

export interface SecondWorker {
  start(): void
  /** Microseconds. */
  cpu(): number
  stop(): Promise<void>
}

/** Starts another process with a worker of the same library; resolves when that is connected. */
export async function startSecondWorker(
  library: DrainingLibrary,
  { options, task }: { readonly options: SystemOptions; readonly task: Task },
  handled: (jobs: number) => void,
): Promise<SecondWorker> {
  const order: SecondOrder = { options, library: titleOf(library), task }
  const child = fork(new URL('./second-process.js', import.meta.url), [JSON.stringify(order)], {
    stdio: ['ignore', 2, 2, 'ipc'],
  })
  const ended = once(child, 'exit')
  let cpu = 0
  let isReady: () => void = () => undefined
  const ready = new Promise<void>((resolve) => {
    isReady = resolve
  })
  child.on('message', (report: SecondReport) => {
    isReady()
    cpu = report.cpu
    if (report.jobs > 0) handled(report.jobs)
  })
  const died = ended.then(([code]) => {
    throw new Error(`the second worker process ended with exit code ${code}`)
  })
  await Promise.race([ready, died])
  // From now on its end is what `stop` waits for; if it comes early, jobs are missing and the measurement gives up.
  died.catch(() => undefined)
  return {
    start: () => child.send('start'),
    cpu: () => cpu,
    async stop() {
      child.disconnect()
      await ended
    },
  }
}
