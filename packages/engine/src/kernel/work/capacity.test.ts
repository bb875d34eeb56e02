import { expect, test } from 'vitest'
import { createCapacity } from './capacity.js'

test('K-01 asks for one item per free slot', () => {
  const capacity = createCapacity(10)
  expect(capacity.toClaim(0)).toBe(10)
  expect(capacity.toClaim(7)).toBe(3)
  expect(capacity.toClaim(10)).toBe(0)
})

test('K-01 long work is not claimed ahead of free slots', () => {
  const capacity = createCapacity(10)
  capacity.claimTook(4)
  capacity.itemTook(1_000)
  expect(capacity.toClaim(0)).toBe(10)
  expect(capacity.toClaim(10)).toBe(0)
})

test('K-01 short work is claimed ahead for 25 ms, not item by item', () => {
  const capacity = createCapacity(10)
  for (let i = 0; i < 100; i++) capacity.claimTook(4)
  capacity.itemTook(1)
  expect(capacity.toClaim(0)).toBe(10 + 250)
  expect(capacity.toClaim(100)).toBe(160)
  expect(capacity.toClaim(135)).toBe(0)
})

test('K-01 never claims more than its limit, however short the work', () => {
  const capacity = createCapacity(5_000)
  for (let i = 0; i < 100; i++) capacity.claimTook(500)
  capacity.itemTook(0)
  expect(capacity.toClaim(0)).toBe(6_000)
})
