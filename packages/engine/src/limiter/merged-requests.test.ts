import fc from 'fast-check'
import { expect, test } from 'vitest'
import { distributeSlots, mergeRequests, waitOf } from './merged-requests.js'

const request = (count: number, maxWaitMs: number, since = 0) => ({ count, maxWaitMs, since })

test.each([
  ['none', [], []],
  ['one', [request(1, 100)], [{ count: 1, maxWaitMs: 100 }]],
  ['neighbours that want the same', [request(1, 100), request(3, 100)], [{ count: 4, maxWaitMs: 100 }]],
  [
    'others in between',
    [request(1, 100), request(1, 0), request(1, 100)],
    [
      { count: 1, maxWaitMs: 100 },
      { count: 1, maxWaitMs: 0 },
      { count: 1, maxWaitMs: 100 },
    ],
  ],
])('R-02 %s: merged in the order of the requests', (_, requests, merged) => {
  expect(mergeRequests(requests, 0)).toMatchObject(merged)
  expect(mergeRequests(requests, 0).flatMap((merged) => merged.requests)).toEqual(requests)
})

test('R-02 the time spent waiting for the database counts, for a merged request that of its first', () => {
  expect(mergeRequests([request(1, 100, 5), request(1, 100, 9), request(1, 20, 5)], 45)).toMatchObject([
    { count: 2, maxWaitMs: 60 },
    { count: 1, maxWaitMs: 0 },
  ])
})

test.each([
  // 10 per second, burst 3: two are free at once, then one every 100 ms.
  { counts: [1, 1, 1, 1], granted: 3, waits: [[0], [0], [100], []] },
  {
    counts: [2, 3],
    granted: 4,
    waits: [
      [0, 0],
      [100, 200],
    ],
  },
  { counts: [3, 1], granted: 0, waits: [[], []] },
])('R-01 $granted slots for $counts: first come, first served', ({ counts, granted, waits }) => {
  const merged = { count: 4, maxWaitMs: 50, requestedWaitMs: 50, requests: counts.map((count) => request(count, 50)) }
  const distributed = distributeSlots(merged, { granted, firstMs: -100, stepMs: 100, atMs: 0 })
  expect(distributed.map(({ slots }) => Array.from({ length: slots.granted }, (_, nth) => waitOf(slots, nth)))).toEqual(
    waits,
  )
})

test.each([
  [0.2, 0, 0, 1],
  [250, 0, 0, 250],
  [250, 0, 100, 150],
  [-100, 3, 0, 200],
])(
  'R-01 with the first slot at %d ms, %d taken and a wait of %d ms, try again after %d ms',
  (firstMs, granted, maxWaitMs, after) => {
    const merged = { count: 9, maxWaitMs: 0, requestedWaitMs: maxWaitMs, requests: [request(9, maxWaitMs)] }
    const [distributed] = distributeSlots(merged, { granted, firstMs, stepMs: 100, atMs: 0 })
    expect(distributed?.slots.retryAfterMs).toBe(after)
  },
)

test('R-01 every slot is distributed once and in order, however many requests want how many', () => {
  const counts = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 30 })
  fc.assert(
    fc.property(counts, fc.double({ min: 0, max: 1, noNaN: true }), (wanted, share) => {
      const requests = wanted.map((count) => request(count, 10))
      const [merged] = mergeRequests(requests, 0)
      if (!merged) throw new Error('nothing was merged')
      const granted = Math.floor(merged.count * share)
      const distributed = distributeSlots(merged, { granted, firstMs: 7, stepMs: 3, atMs: 0 })
      const waits = distributed.flatMap(({ slots }) =>
        Array.from({ length: slots.granted }, (_, nth) => waitOf(slots, nth)),
      )
      expect(waits).toEqual(Array.from({ length: granted }, (_, nth) => 7 + 3 * nth))
    }),
  )
})
