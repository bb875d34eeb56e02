/**
 * Several at once, begun in their order; after the first failure no more are begun. Of several failures the earliest item's is
 * thrown, so that the same cause always has the same message.
 */
export async function inLanes<T>(
  items: readonly T[],
  lanes: number,
  work: (item: T, place: number) => Promise<void>,
): Promise<void> {
  const failures = new Map<number, unknown>()
  let next = 0
  async function lane(): Promise<void> {
    while (next < items.length && failures.size === 0) {
      const place = next++
      try {
        await work(items[place] as T, place)
      } catch (error) {
        failures.set(place, error)
      }
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  if (failures.size > 0) throw failures.get(Math.min(...failures.keys()))
}
