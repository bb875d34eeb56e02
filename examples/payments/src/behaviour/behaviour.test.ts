import { expect, test } from 'vitest'
import { Behaviour, outcomeOf, StepBehaviour } from './behaviour.js'
import { diceOf } from './dice.js'

const rolled = (...numbers: number[]) => {
  const left = [...numbers]
  return () => left.shift() ?? 0
}

test('A-04 the dice are read in the order permanent, transient, business, timeout, pending', () => {
  const step = StepBehaviour.parse({
    permanentPct: 10,
    transientPct: 10,
    businessPct: 10,
    timeoutPct: 10,
    pendingPct: 10,
    minMs: 100,
    maxMs: 200,
  })
  const rolls = [0, 0.0999, 0.1, 0.2, 0.3, 0.4, 0.4999, 0.5, 0.9999]
  expect(rolls.map((roll) => outcomeOf(step, rolled(0.5, roll)).outcome)).toEqual([
    'permanent',
    'permanent',
    'transient',
    'business',
    'timeout',
    'pending',
    'pending',
    'success',
    'success',
  ])
  expect([0, 0.5, 1].map((roll) => outcomeOf(step, rolled(roll, 1)).durationMs)).toEqual([100, 150, 200])
})

test('A-04 what is not described succeeds at once', () => {
  expect(outcomeOf(Behaviour.parse({}).bookFx, rolled(0, 0))).toEqual({ outcome: 'success', durationMs: 0 })
})

test('A-04 the same seed gives the same dice, another one others, and they spread evenly', () => {
  const take = (seed: string) => Array.from({ length: 5 }, diceOf(seed, 1, 'bookRisk', 1))
  expect(take('a')).toEqual(take('a'))
  expect(take('a')).not.toEqual(take('b'))
  const many = Array.from({ length: 10_000 }, (_, n) => diceOf('c', n, 'submit', 1)())
  const below = many.filter((roll) => roll < 0.1).length
  expect(below).toBeGreaterThan(850)
  expect(below).toBeLessThan(1_150)
})

test.each([
  [{ bookRisk: { transientPct: 60, businessPct: 41 } }, /more than 100/],
  [{ bookRisk: { transientPct: -1 } }, />=0/],
  [{ bookRisk: { minMs: 10, maxMs: 5 } }, /less than minMs/],
  [{ bookRisks: {} }, /bookRisks|Invalid/],
  [{ bookRisk: { transient: 1 } }, /transient/],
])('A-04 refuses %j', (behaviour, message) => {
  expect(() => Behaviour.parse(behaviour)).toThrow(message)
})
