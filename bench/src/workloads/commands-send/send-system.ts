import type { Run, System, Task } from '../../harness/workload.js'
import { BULK, chunksOf, type Payload } from '../../libraries/payload.js'
import type { Sender, SendingLibrary } from './sender.js'

/** One caller that waits for each, many callers that each do so, or one caller with thousands. */
export interface Way {
  readonly name: string
  /** A slow way sends fewer, so that it does not take minutes. */
  readonly share: number
  send(sender: Sender, items: number): Promise<void>
}

const callers = (count: number) => async (sender: Sender, items: number) => {
  let next = 0
  async function call(): Promise<void> {
    while (next < items) {
      const payload: Payload = { place: next }
      next += 1
      await sender.one(payload)
    }
  }
  await Promise.all(Array.from({ length: count }, call))
}

export const ways: readonly Way[] = [
  { name: 'one by one', share: 0.05, send: callers(1) },
  { name: '50 at a time', share: 0.2, send: callers(50) },
  {
    name: `bulk of ${BULK}`,
    share: 1,
    async send(sender, items) {
      for (const chunk of chunksOf(items)) await sender.bulk(chunk)
    },
  },
]

export function sendSystem({ install, open, ...about }: SendingLibrary, way: Way): System {
  return {
    ...about,
    config: { ...about.config, way: way.name },
    group: way.name,
    share: way.share,
    // Nobody receives: everything is there when the last send has resolved.
    anythingLeft: 'select false',
    prepare: ({ connectionString }) => install(connectionString),
    open: async (task) => runOf(await open(task.connectionString), way, task),
  }
}

function runOf(sender: Sender, way: Way, { items }: Task): Run {
  return { work: () => way.send(sender, items), close: () => sender.close() }
}
