import { setTimeout as sleep } from 'node:timers/promises'
import type { Executor } from '../kernel/model/index.js'

/** How often, and for how long at most, the kill switch checks whether everything that was claimed has begun. */
const EVERY = 50
const LONGEST = 3_000

/**
 * Waits, after the kill switch was committed, until nothing can begin any more. From the commit on no claim lets a
 * dispatched execution through. One that was claimed just before begins within a second and a half, or its worker releases
 * it; so there is nothing left to begin as soon as no such claim is younger than two seconds.
 */
export async function nothingBegins(executor: Executor, itemType: string): Promise<void> {
  const until = performance.now() + LONGEST
  for (;;) {
    const [row] = await executor.run<{ count: number }>(countStatement, [itemType])
    if (!row?.count || performance.now() > until) return
    await sleep(EVERY)
  }
}

const countStatement = {
  name: 'dispatch.count-beginning',
  text: 'select holdfast.count_dispatched_beginning($1) as count',
}
