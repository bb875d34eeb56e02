import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { inLanes } from './lanes.js'

const ITEMS = ['a', 'b', 'c', 'd', 'e']

test('every item is worked on once, in so many lanes', async () => {
  const seen: [item: string, place: number][] = []
  let running = 0
  let most = 0
  await inLanes(ITEMS, 2, async (item, place) => {
    most = Math.max(most, ++running)
    await sleep(1)
    running -= 1
    seen.push([item, place])
  })
  expect(seen.sort(([, a], [, b]) => a - b)).toEqual(ITEMS.map((item, place) => [item, place]))
  expect(most).toBe(2)
})

test('the failure of the earliest item is thrown, whichever fails first, and no further item begins', async () => {
  const begun: number[] = []
  const failing = inLanes([30, 10, 20, 0, 0], 3, async (milliseconds, place) => {
    begun.push(place)
    await sleep(milliseconds)
    throw new Error(`item ${place}`)
  })
  await expect(failing).rejects.toThrow('item 0')
  expect(begun).toEqual([0, 1, 2])
})
