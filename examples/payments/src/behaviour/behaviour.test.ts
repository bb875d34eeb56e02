import { expect, test } from 'vitest'
import { Behaviour } from './behaviour.js'
import { roll, tookEffect } from './world.js'

const worldOf = (seed: string, ordinal: number, given: object) => ({
  seed,
  ordinal,
  behaviour: Behaviour.parse({ bookRisk: given }),
})
const always = { permanentPct: 0, transientPct: 0, businessPct: 0, timeoutPct: 0, pendingPct: 0 }

test.each([
  ['permanentPct', 'PERMANENT'],
  ['transientPct', 'TRANSIENT'],
  ['businessPct', 'BUSINESS'],
  ['timeoutPct', 'TIMEOUT'],
  ['pendingPct', 'PENDING'],
])('A-04 %s is called in the testing kit %s', (chance, outcome) => {
  const world = worldOf('a', 1, { ...always, [chance]: 100, minMs: 100, maxMs: 200 })
  const rolled = roll(world, 'bookRisk')
  expect(rolled.outcome).toBe(outcome)
  expect(rolled.durationMs).toBeGreaterThanOrEqual(100)
  expect(rolled.durationMs).toBeLessThanOrEqual(200)
})

test('A-04 a call without a described behaviour succeeds at once', () => {
  expect(roll(worldOf('a', 1, {}), 'bookFx')).toEqual({ outcome: 'SUCCESS', durationMs: 0 })
  expect(roll({ seed: null, ordinal: 0, behaviour: null }, 'submit')).toEqual({ outcome: 'SUCCESS', durationMs: 0 })
})

test('A-04 what happens follows from the seed, the place in the batch, the step and the call', () => {
  const outcomes = (seed: string, nth = 1) =>
    Array.from({ length: 1_000 }, (_, n) => roll(worldOf(seed, n, { transientPct: 10 }), 'bookRisk', nth).outcome)
  expect(outcomes('a')).toEqual(outcomes('a'))
  expect(outcomes('a')).not.toEqual(outcomes('b'))
  expect(outcomes('a')).not.toEqual(outcomes('a', 2))
  const failed = outcomes('c').filter((outcome) => outcome === 'TRANSIENT').length
  expect(failed).toBeGreaterThan(70)
  expect(failed).toBeLessThan(130)
  const effects = Array.from({ length: 1_000 }, (_, n) => tookEffect(worldOf('c', n, {}), 'submit', 1))
  expect(effects.filter(Boolean).length).toBeGreaterThan(430)
  expect(effects.filter(Boolean).length).toBeLessThan(570)
})

test.each([
  [{ bookRisk: { transientPct: 60, businessPct: 41 } }, /more than 100/],
  [{ bookRisk: { transientPct: -1 } }, />=0/],
  [{ bookRisk: { minMs: 10, maxMs: 5 } }, /less than min/],
  [{ bookRisks: {} }, /bookRisks|Invalid/],
  [{ bookRisk: { transient: 1 } }, /transient/],
])('A-04 refuses %j', (behaviour, message) => {
  expect(() => Behaviour.parse(behaviour)).toThrow(message)
})
