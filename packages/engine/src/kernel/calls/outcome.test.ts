import { describe, expect, it } from 'vitest'
import { classifyFailure } from '../failure/classify.js'
import { BusinessError, PermanentError, TransientError } from '../failure/failure-errors.js'
import { type CompensateIf, mustCompensate, outcomeOfFailure } from './outcome.js'

describe('K-19 the outcome of a call', () => {
  it.each([
    [new BusinessError('declined'), 'refused'],
    [new PermanentError('no such account'), 'refused'],
    [new TransientError('try again'), 'unknown'],
    [new Error('socket hang up'), 'unknown'],
    [new DOMException('time is up', 'TimeoutError'), 'unknown'],
    ['a string', 'unknown'],
  ] as const)('K-08 %s is %s in every model', (error, outcome) => {
    for (const unknown of ['transient', 'permanent'] as const) {
      expect(outcomeOfFailure(classifyFailure(error, { unknown }))).toBe(outcome)
    }
  })

  it.each([
    ['business', 'refused'],
    ['permanent', 'refused'],
    ['transient', 'unknown'],
    [undefined, 'unknown'],
  ] as const)('K-08 an error that the classifier calls %s is %s', (kind, outcome) => {
    expect(outcomeOfFailure(classifyFailure(new Error('?'), { unknown: 'permanent', classify: () => kind }))).toBe(
      outcome,
    )
  })

  it.each([
    ['possible', [true, true, false]],
    ['completed', [true, false, false]],
    ['attempted', [true, true, true]],
  ] as [CompensateIf, boolean[]][])('K-19 compensateIf %s', (compensateIf, expected) => {
    const outcomes = (['completed', 'unknown', 'refused'] as const).map((outcome) =>
      mustCompensate(outcome, compensateIf),
    )
    expect(outcomes).toEqual(expected)
  })
})
