import { expect, test } from 'vitest'
import { atOnce } from './at-once.js'

test('every number is processed, and at most the given number at a time', async () => {
  const seen: number[] = []
  let running = 0
  let most = 0
  await atOnce(3, 10, async (place) => {
    running += 1
    most = Math.max(most, running)
    await Promise.resolve()
    seen.push(place)
    running -= 1
  })
  expect(seen.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  expect(most).toBe(3)
})

test('a failure is passed on', async () => {
  const failing = atOnce(2, 5, async (place) => {
    if (place === 3) throw new Error('the third')
  })
  await expect(failing).rejects.toThrow('the third')
})
