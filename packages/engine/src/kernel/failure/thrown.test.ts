import { expect, test } from 'vitest'
import { HoldfastError } from '../errors.js'
import { describeThrown } from './thrown.js'

test('K-14 what to do next is stored with errors of ours, and with no other error that has a field of that name', () => {
  const ours = new HoldfastError('HF_STOPPED', { what: 'the worker' })
  expect(describeThrown(ours).message).toBe(`${ours.message}. ${ours.next}`)
  expect(describeThrown(Object.assign(new Error('no route'), { next: 'page 2' })).message).toBe('no route')
})
