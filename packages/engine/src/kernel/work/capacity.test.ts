import { expect, test } from 'vitest'
import { createCapacity } from './capacity.js'

test('K-01 asks for one item per free slot', () => {
  const appetite = createCapacity(10)
  expect(appetite.toClaim(0)).toBe(10)
  expect(appetite.toClaim(7)).toBe(3)
  expect(appetite.toClaim(10)).toBe(0)
})

test('K-01 long work is not claimed ahead of free slots', () => {
  const appetite = createCapacity(10)
  appetite.claimTook(4)
  appetite.itemTook(1_000)
  expect(appetite.toClaim(0)).toBe(10)
  expect(appetite.toClaim(10)).toBe(0)
})

test('K-01 short work is claimed ahead for 25 ms, in helpings', () => {
  const appetite = createCapacity(10)
  for (let i = 0; i < 100; i++) appetite.claimTook(4)
  appetite.itemTook(1)
  expect(appetite.toClaim(0)).toBe(10 + 250)
  expect(appetite.toClaim(100)).toBe(160)
  expect(appetite.toClaim(135)).toBe(0)
})

test('K-01 never hoards, however short the work', () => {
  const appetite = createCapacity(5_000)
  for (let i = 0; i < 100; i++) appetite.claimTook(500)
  appetite.itemTook(0)
  expect(appetite.toClaim(0)).toBe(6_000)
})
