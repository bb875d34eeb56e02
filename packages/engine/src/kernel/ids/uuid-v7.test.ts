import { expect, test } from 'vitest'
import { uuidV7 } from './uuid-v7.js'

const msOf = (id: string) => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)

test('a UUID v7 has its version, its variant and its time', () => {
  const before = Date.now()
  const id = uuidV7()
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(msOf(id)).toBeGreaterThanOrEqual(before)
})

test('a known time stands in the first 48 bits', () => {
  expect(uuidV7(0xf123_4567_89ab).slice(0, 13)).toBe('f1234567-89ab')
})

test('ids of one process are all different and in order, also within a millisecond and when the clock is set back', () => {
  const start = 0xf200_0000_0000
  const times = Array.from({ length: 20_000 }, (_, n) => start + (n % 7 === 0 ? -5_000 : Math.floor(n / 5_000)))
  const ids = times.map((time) => uuidV7(time))
  expect(new Set(ids).size).toBe(ids.length)
  expect([...ids].sort()).toEqual(ids)
})
