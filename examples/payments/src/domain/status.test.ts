import { expect, test } from 'vitest'
import { hasEnded, paymentStatuses, sourcesOf } from './status.js'

test('A-01 a payment changes only to a status that its present one allows, and a finished payment never changes', () => {
  expect(Object.fromEntries(paymentStatuses.map((status) => [status, sourcesOf(status)]))).toEqual({
    SCHEDULED: [],
    ACCEPTED: ['SCHEDULED'],
    PROCESSING: ['ACCEPTED'],
    COMPLETE: ['PROCESSING'],
    FAILED: ['SCHEDULED', 'ACCEPTED', 'PROCESSING'],
    CANCELLED: ['SCHEDULED', 'ACCEPTED', 'PROCESSING'],
  })
  expect(paymentStatuses.filter(hasEnded)).toEqual(['COMPLETE', 'FAILED', 'CANCELLED'])
})
