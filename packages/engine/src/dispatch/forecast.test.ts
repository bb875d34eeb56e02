import { expect, test } from 'vitest'
import { forecast, ratePerSecond } from './forecast.js'

const four = new Date('2026-03-02T16:00:00Z')
const after = (seconds: number) => new Date(four.getTime() + seconds * 1_000)

test('D-12 a million items due at four o’clock at 100 per second are released by 18:46:40', () => {
  const { finishesAt, latestBy } = forecast([{ at: four, count: 1_000_000 }], { perSecond: 100, now: after(-3_600) })
  expect(finishesAt).toEqual(new Date('2026-03-02T18:46:40Z'))
  expect(latestBy).toBe(10_000_000)
})

test('D-12 items that are due later wait for earlier items only while those are not released', () => {
  const due = [
    { at: four, count: 90 },
    { at: after(60), count: 30 },
    { at: after(600), count: 10 },
  ]
  const plan = forecast(due, { perSecond: 1, now: four })
  expect(plan.finishesAt).toEqual(after(610))
  expect(plan.backlog).toEqual([
    { at: four, waiting: 30 },
    { at: after(60), waiting: 0 },
    { at: after(600), waiting: 0 },
  ])
  expect(plan.latestBy).toBe(90_000)
})

test('D-12 while it runs: overdue items count from now on', () => {
  const { finishesAt } = forecast([{ at: after(-600), count: 100 }], { perSecond: 10, now: four })
  expect(finishesAt).toEqual(after(10))
})

test('D-12 no items have no end, a rate of zero never ends, and without a limit everything ends when it is due', () => {
  expect(forecast([], { perSecond: 10, now: four }).finishesAt).toBeUndefined()
  expect(forecast([{ at: four, count: 1 }], { perSecond: 0, now: four }).finishesAt).toBeUndefined()
  const { finishesAt } = forecast([{ at: four, count: 5 }], { perSecond: Number.POSITIVE_INFINITY, now: after(-1) })
  expect(finishesAt).toEqual(four)
})

test.each([
  [{ batchSize: 500, dispatchInterval: 5_000, limitPerSecond: null }, 100],
  [{ batchSize: 500, dispatchInterval: 5_000, limitPerSecond: 20 }, 20],
  [{ batchSize: 500, dispatchInterval: 0, limitPerSecond: 20 }, 20],
  [{ batchSize: 500, dispatchInterval: 0, limitPerSecond: null }, Number.POSITIVE_INFINITY],
])('D-12 %j releases %d per second', (config, rate) => {
  expect(ratePerSecond(config)).toBe(rate)
})
