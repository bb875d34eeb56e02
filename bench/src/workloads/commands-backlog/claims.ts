/** How many jobs every system claims at once. */
export const CLAIM_SIZE = 100
/** Enough for a median, and no more than 10,000 waiting ones allow. */
export const CLAIMS = 50
/** The first ones read pages and plan statements. */
export const WARM_UP = 5
/** A claim that takes seconds has told what there is to tell after a few of them. */
const LONG_ENOUGH_MS = 20_000

/**
 * Claims again and again; returns how long each took, in milliseconds, without the first ones. Ends early when a claim
 * comes back short.
 *
 * @example
 * const durations = await timeClaims(async () => (await boss.fetch(QUEUE, { batchSize: CLAIM_SIZE })).length)
 */
export async function timeClaims(claim: () => Promise<number>, most = WARM_UP + CLAIMS): Promise<number[]> {
  const durations: number[] = []
  const start = performance.now()
  while (durations.length < most) {
    const began = performance.now()
    const claimed = await claim()
    const ended = performance.now()
    if (claimed < CLAIM_SIZE) break
    durations.push(ended - began)
    if (durations.length > 2 * WARM_UP && ended - start > LONG_ENOUGH_MS) break
  }
  return durations.slice(WARM_UP)
}
