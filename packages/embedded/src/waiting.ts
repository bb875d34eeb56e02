import { setTimeout as delay } from 'node:timers/promises'

const POLL_MS = 20

/** Polls until there is a value; undefined when the time is over. */
export async function until<T>(
  timeoutMs: number,
  look: () => T | undefined | Promise<T | undefined>,
): Promise<T | undefined> {
  const end = performance.now() + timeoutMs
  for (;;) {
    const answer = await look()
    if (answer !== undefined) return answer
    if (performance.now() >= end) return undefined
    await delay(POLL_MS)
  }
}
