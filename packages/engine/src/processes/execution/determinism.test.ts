import { expect, test } from 'vitest'
import { createDeterminism } from './determinism.js'

const draw = (seed: string) => {
  const drawing = createDeterminism(seed)
  return [drawing.uuid(), drawing.random(), drawing.random(), drawing.uuid()]
}

test('P-04 the same process gets the same values, another process others', () => {
  expect(draw('p 1')).toEqual(draw('p 1'))
  expect(new Set([...draw('p 1'), ...draw('p 2'), ...draw('q 1')]).size).toBe(12)
})

test('P-04 random numbers are spread over [0, 1)', () => {
  const drawing = createDeterminism('spread')
  const buckets = new Set<number>()
  for (let drawn = 0; drawn < 500; drawn += 1) {
    const value = drawing.random()
    expect(value).toBeGreaterThanOrEqual(0)
    expect(value).toBeLessThan(1)
    buckets.add(Math.floor(value * 10))
  }
  expect(buckets.size).toBe(10)
})

test('P-04 ids are UUIDs', () => {
  expect(createDeterminism('x').uuid()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
})
