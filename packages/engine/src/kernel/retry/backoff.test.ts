import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type BackoffOptions, createBackoff } from './backoff.js'

const take = (count: number, next: () => number) => Array.from({ length: count }, next)

describe('createBackoff', () => {
  it('K-11 grows at most threefold, up to the cap, and starts again after a reset', () => {
    const backoff = createBackoff({ random: () => 1 })
    expect(take(6, () => backoff.next())).toEqual([150, 450, 1350, 4050, 5000, 5000])
    backoff.reset()
    expect(backoff.next()).toBe(150)
  })

  it('K-11 never retries without a pause and never waits longer than the cap', () => {
    fc.assert(
      fc.property(fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true })), (chances) => {
        const backoff = createBackoff({ base: 20, cap: '1s', random: () => chances.next().value })
        for (const wait of take(50, () => backoff.next())) {
          expect(wait).toBeGreaterThanOrEqual(20)
          expect(wait).toBeLessThanOrEqual(1000)
        }
      }),
    )
  })

  it('K-11 spreads retries that start together', () => {
    const waits = take(100, () => createBackoff({ base: '1s' }).next())
    expect(new Set(waits).size).toBeGreaterThan(50)
  })

  it.each<[BackoffOptions, RegExp]>([
    [{ base: 0 }, /`base` must be 1 ms or more/],
    [{ base: '2s', cap: '1s' }, /`cap` must be 2 s or more/],
    [JSON.parse('{ "bse": "2s" }'), /did you mean `base`/],
  ])('refuses %j', (options, message) => {
    expect(() => createBackoff(options)).toThrow(message)
  })
})
