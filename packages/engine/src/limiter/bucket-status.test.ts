import { expect, test } from 'vitest'
import { bucketStatus } from './bucket-status.js'

const limit = { ticketsPerSecond: 10, burst: 5 }

test.each([
  [0, { available: 5, reservedAhead: 0, nextSlotMs: 0 }],
  [100, { available: 4, reservedAhead: 0, nextSlotMs: 0 }],
  [399.9, { available: 1, reservedAhead: 0, nextSlotMs: 0 }],
  [450, { available: 0, reservedAhead: 0, nextSlotMs: 50 }],
  [500, { available: 0, reservedAhead: 0, nextSlotMs: 100 }],
  [700, { available: 0, reservedAhead: 2, nextSlotMs: 300 }],
])('R-03 a bucket that is full in %d ms', (leadMs, level) => {
  expect(bucketStatus(limit, leadMs)).toEqual(level)
})
