import { expect, test } from 'vitest'
import { createAppetite } from './appetite.js'

test('K-01 asks for one item per free slot', () => {
  const appetite = createAppetite(10)
  expect(appetite.room(0)).toBe(10)
  expect(appetite.room(7)).toBe(3)
  expect(appetite.room(10)).toBe(0)
})

test('K-01 long work is not claimed ahead of free slots', () => {
  const appetite = createAppetite(10)
  appetite.claimTook(4)
  appetite.itemTook(1_000)
  expect(appetite.room(0)).toBe(10)
  expect(appetite.room(10)).toBe(0)
})

test('K-01 short work is claimed ahead for 25 ms, in helpings', () => {
  const appetite = createAppetite(10)
  for (let i = 0; i < 100; i++) appetite.claimTook(4)
  appetite.itemTook(1)
  expect(appetite.room(0)).toBe(10 + 250)
  expect(appetite.room(100)).toBe(160)
  expect(appetite.room(135)).toBe(0)
})

test('K-01 never hoards, however short the work', () => {
  const appetite = createAppetite(5_000)
  for (let i = 0; i < 100; i++) appetite.claimTook(500)
  appetite.itemTook(0)
  expect(appetite.room(0)).toBe(6_000)
})
