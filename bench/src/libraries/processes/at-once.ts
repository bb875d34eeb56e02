/**
 * Does something for the numbers from 0 to `count` - 1, so many of them at a time.
 *
 * @example
 * await atOnce(20, 1000, (place) => client.enqueue(options, place))
 */
export async function atOnce(width: number, count: number, act: (place: number) => Promise<unknown>): Promise<void> {
  let next = 0
  async function lane(): Promise<void> {
    for (let place = next++; place < count; place = next++) await act(place)
  }
  await Promise.all(Array.from({ length: Math.min(width, count) }, lane))
}
