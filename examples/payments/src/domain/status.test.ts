import { expect, test } from 'vitest'
import { hasEnded, paymentStatuses, sourcesOf } from './status.js'

test('A-01 a payment becomes what its status allows, and an ended one never changes', () => {
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
