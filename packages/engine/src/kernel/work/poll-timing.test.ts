import { expect, test } from 'vitest'
import { createPollTiming } from './poll-timing.js'

test('K-06 waits until the next due time, at most until the next poll', () => {
  const wakefulness = createPollTiming(1_000)
  expect(wakefulness.idleMs(null)).toBe(1_000)
  expect(wakefulness.idleMs(250.2)).toBe(251)
  expect(wakefulness.idleMs(60_000)).toBe(1_000)
})

test('K-06 after a wake-up it polls again soon, then later and later', () => {
  const wakefulness = createPollTiming(1_000)
  expect(wakefulness.woken()).toBe(0)
  expect([1, 2, 3, 4, 5].map(() => wakefulness.idleMs(null))).toEqual([5, 25, 125, 625, 1_000])
})

test('K-06 a worker that is woken without finding work delays its claim more and more, up to a limit', () => {
  const wakefulness = createPollTiming(1_000, () => 1)
  const hesitations = Array.from({ length: 8 }, () => {
    const hesitation = wakefulness.woken()
    wakefulness.claimed(0)
    return hesitation
  })
  expect(hesitations).toEqual([0, 2, 4, 8, 16, 32, 50, 50])
  wakefulness.woken()
  wakefulness.claimed(3)
  expect(wakefulness.woken()).toBe(0)
})

test('K-06 a poll that finds nothing adds no delay', () => {
  const wakefulness = createPollTiming(1_000, () => 1)
  wakefulness.claimed(0)
  wakefulness.claimed(0)
  expect(wakefulness.woken()).toBe(0)
})
