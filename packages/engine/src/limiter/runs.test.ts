import fc from 'fast-check'
import { expect, test } from 'vitest'
import { dealSlots, runsOf, waitOf } from './runs.js'

const asker = (count: number, maxWaitMs: number, since = 0) => ({ count, maxWaitMs, since })

test.each([
  ['nobody', [], []],
  ['one', [asker(1, 100)], [{ count: 1, maxWaitMs: 100 }]],
  ['neighbours that want the same', [asker(1, 100), asker(3, 100)], [{ count: 4, maxWaitMs: 100 }]],
  [
    'others in between',
    [asker(1, 100), asker(1, 0), asker(1, 100)],
    [
      { count: 1, maxWaitMs: 100 },
      { count: 1, maxWaitMs: 0 },
      { count: 1, maxWaitMs: 100 },
    ],
  ],
])('R-02 %s: runs in the order of asking', (_, askers, runs) => {
  expect(runsOf(askers, 0)).toMatchObject(runs)
  expect(runsOf(askers, 0).flatMap((run) => run.askers)).toEqual(askers)
})

test('R-02 the time spent waiting for the database counts, for a run that of its first', () => {
  expect(runsOf([asker(1, 100, 5), asker(1, 100, 9), asker(1, 20, 5)], 45)).toMatchObject([
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
  const run = { count: 4, maxWaitMs: 50, askedMs: 50, askers: counts.map((count) => asker(count, 50)) }
  const dealt = dealSlots(run, { granted, firstMs: -100, stepMs: 100, atMs: 0 })
  expect(dealt.map(({ slots }) => Array.from({ length: slots.granted }, (_, nth) => waitOf(slots, nth)))).toEqual(waits)
})

test.each([
  [0.2, 0, 0, 1],
  [250, 0, 0, 250],
  [250, 0, 100, 150],
  [-100, 3, 0, 200],
])(
  'R-01 with the first slot at %d ms, %d taken and a wait of %d ms, try again after %d ms',
  (firstMs, granted, maxWaitMs, after) => {
    const run = { count: 9, maxWaitMs: 0, askedMs: maxWaitMs, askers: [asker(9, maxWaitMs)] }
    const [dealt] = dealSlots(run, { granted, firstMs, stepMs: 100, atMs: 0 })
    expect(dealt?.slots.retryAfterMs).toBe(after)
  },
)

test('R-01 every slot is dealt once and in order, however many ask for how many', () => {
  const counts = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 30 })
  fc.assert(
    fc.property(counts, fc.double({ min: 0, max: 1, noNaN: true }), (wanted, share) => {
      const askers = wanted.map((count) => asker(count, 10))
      const [run] = runsOf(askers, 0)
      if (!run) throw new Error('no run')
      const granted = Math.floor(run.count * share)
      const dealt = dealSlots(run, { granted, firstMs: 7, stepMs: 3, atMs: 0 })
      const waits = dealt.flatMap(({ slots }) => Array.from({ length: slots.granted }, (_, nth) => waitOf(slots, nth)))
      expect(waits).toEqual(Array.from({ length: granted }, (_, nth) => 7 + 3 * nth))
    }),
  )
})
