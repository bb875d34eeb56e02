import { setTimeout as sleep } from 'node:timers/promises'

/** Shorter than the limit of a test, so that its error says what was waited for. Long tests run beside kills and restarts. */
const LONGEST = process.env.HOLDFAST_TEST_LONG ? 300_000 : 100_000

/**
 * Waits until a condition holds and returns what it found. Tests wait for conditions, never for time.
 *
 * @example
 * await waitFor('all items are done', async () => (await countOpen()) === 0)
 */
export async function waitFor<T>(
  what: string,
  condition: () => T | Promise<T>,
  { timeout = LONGEST, every = 10 }: { readonly timeout?: number; readonly every?: number } = {},
): Promise<NonNullable<T>> {
  const deadline = performance.now() + timeout
  for (;;) {
    const found = await condition()
    if (found !== false && found !== undefined && found !== null) return found
    if (performance.now() > deadline) throw new Error(`waited ${timeout} ms without success until ${what}`)
    await sleep(every)
  }
}
