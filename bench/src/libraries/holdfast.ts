import { defineCommand, type Holdfast, holdfast } from 'holdfast'
import { versionOf } from '../harness/version.js'
import { chunksOf, type Payload } from './payload.js'

export const version = versionOf('holdfast')

/** Its queue is `bench__commands`. */
export const Noop = defineCommand('bench', 'Noop')

/** No message is left, and every command says that it is done. */
export const anythingLeft = `
  select exists (select from pgmq.q_bench__commands)
    or exists (select from holdfast.command where status <> 'COMPLETED')`

export function openHoldfast(connectionString: string): Promise<Holdfast> {
  return holdfast({ connectionString })
}

/** The installation and its waiting commands. */
export async function fillHoldfast(
  connectionString: string,
  items: number,
  options: { delay?: '1d' } = {},
): Promise<void> {
  const hf = await openHoldfast(connectionString)
  // The worker's side makes the index of the queue; without it a big backlog would be indexed while the clock runs.
  hf.handle(Noop, async () => undefined)
  const worker = await hf.run({ notify: false, poll: '1h' })
  await worker.stop()
  try {
    for (const chunk of chunksOf(items)) await hf.sendMany(Noop, chunk.map(toCommand(options)))
  } finally {
    await hf.close()
  }
}

const toCommand = (options: { delay?: '1d' }) => (data: Payload) => ({ data, ...options })
