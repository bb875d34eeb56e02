import { expect, test } from 'vitest'
import { createTally } from './tally.js'

test('a tally is full when its number is reached or passed', async () => {
  const tally = createTally(3)
  let isFull = false
  void tally.full.then(() => {
    isFull = true
  })
  tally.add(2)
  await Promise.resolve()
  expect(isFull).toBe(false)
  tally.add(2)
  await tally.full
  expect(isFull).toBe(true)
})
