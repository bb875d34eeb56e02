/** What every job carries. */
export interface Payload {
  readonly place: number
}

/** How many jobs every system sends in one bulk statement. */
export const BULK = 1_000

/**
 * The payloads of many jobs, as many at once as a bulk statement takes.
 *
 * @example
 * for (const chunk of chunksOf(20_000)) await utils.addJobs(chunk.map(toJob))
 */
export function* chunksOf(items: number): Generator<Payload[]> {
  for (let from = 0; from < items; from += BULK) {
    yield Array.from({ length: Math.min(BULK, items - from) }, (_, offset) => ({ place: from + offset }))
  }
}
