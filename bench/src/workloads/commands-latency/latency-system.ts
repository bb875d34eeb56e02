import { setTimeout as sleep } from 'node:timers/promises'
import { percentile } from '../../harness/percentile.js'
import type { Figures, Run, System, Task } from '../../harness/workload.js'
import type { Payload } from '../../libraries/payload.js'

/** A library with a worker that runs, in the process that also sends: one clock tells both moments. */
interface IdleWorker {
  send(payload: Payload): Promise<unknown>
  close(): Promise<void>
}

export interface WaitingLibrary extends Pick<System, 'name' | 'version' | 'role' | 'config'> {
  /** An empty installation. */
  readonly install: (connectionString: string) => Promise<void>
  /** `started` is to be called first thing in the handler. */
  readonly open: (connectionString: string, started: () => void) => Promise<IdleWorker>
}

const EVERY_MS = 50
/** Connections, prepared statements, compiled code: not what an idle worker waits for later. */
const WARM_UP = 20

export function latencySystem({ install, open, ...about }: WaitingLibrary): System {
  return {
    ...about,
    anythingLeft: 'select false',
    prepare: ({ connectionString }) => install(connectionString),
    open: (task) => openRun(open, task),
  }
}

async function openRun(open: WaitingLibrary['open'], { connectionString, items }: Task): Promise<Run> {
  let hasStarted: (at: number) => void = () => undefined
  const worker = await open(connectionString, () => hasStarted(performance.now()))
  const latencies: number[] = []

  async function sendOne(place: number): Promise<number> {
    const started = new Promise<number>((resolve) => {
      hasStarted = resolve
    })
    const began = performance.now()
    await worker.send({ place })
    return (await started) - began
  }

  for (let place = 0; place < WARM_UP; place += 1) {
    await sendOne(place)
    await sleep(EVERY_MS)
  }
  return {
    async work() {
      for (let place = 0; place < items; place += 1) {
        latencies.push(await sendOne(place))
        await sleep(EVERY_MS)
      }
    },
    figures: () => figuresOf(latencies),
    close: () => worker.close(),
  }
}

function figuresOf(latencies: readonly number[]): Figures {
  return {
    value: percentile(latencies, 0.5),
    details: { p95: percentile(latencies, 0.95), p99: percentile(latencies, 0.99) },
  }
}
