import { waitFor } from '@holdfast/testing/internal'
import { afterAll, expect, test } from 'vitest'
import { z } from 'zod'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'
import { by, openOperations } from './operations.fixture.js'

const { bus, work, until, repairable } = await openOperations()
afterAll(() => bus.close())

test('P-16 many are retried, cancelled or completed at once, each with its own result', async () => {
  const { Payment, failing } = repairable('bulk')
  for (const iban of ['AAAA', 'BBBB', 'CCCC']) failing.add(iban)
  const started = await bus.hf.startMany(Payment, [
    ...['AAAA', 'BBBB', 'CCCC'].map((iban) => ({ input: { iban }, key: `KEY ${iban}` })),
    { input: { iban: 'DDDD' } },
  ])
  const [a = '', b = '', c = '', done = ''] = started.map(({ id }) => id)
  await work('bulk')
  await waitFor('three failed', async () => (await bus.hf.trouble.count({ model: 'processes', domain: 'bulk' })) === 3)
  await until(Payment, done, 'COMPLETED')
  const [group] = await bus.hf.trouble.groups({ model: 'processes', domain: 'bulk' })
  expect(group).toMatchObject({ count: 3, type: 'Payment', code: 'NO_ROUTE' })
  failing.clear()
  expect(await bus.hf.trouble.retry([a, done], by)).toMatchObject([
    { id: done, outcome: 'refused', code: 'HF_UNKNOWN_TROUBLE' },
    { id: a, outcome: 'done' },
  ])
  expect(await bus.hf.process(Payment, a).result()).toBe('paid AAAA')
  expect(await bus.hf.trouble.complete([b], by, { result: 'by hand' })).toMatchObject([{ id: b, outcome: 'done' }])
  expect(await bus.hf.process(Payment, b).result()).toBe('by hand')
  const left = { domain: 'bulk', fingerprint: group?.fingerprint ?? '' }
  expect(await bus.hf.trouble.cancel(left, by, { compensate: false })).toMatchObject([{ id: c, outcome: 'done' }])
  await until(Payment, c, 'CANCELLED')
  expect(await bus.hf.trouble.retry({ domain: 'bulk' }, by)).toEqual([])
})

test('P-16 an error that says it is permanent is in the list of troubles', async () => {
  const Bad = defineProcess('troubles', 'Bad', {
    state: z.object({ at: z.date() }),
    execute: async (ctx) => {
      await ctx.step('bad', () => {
        throw new PermanentError('account 7 is closed', { code: 'CLOSED' })
      })
    },
  })
  const { id } = await bus.hf.start(Bad, { at: new Date(1) }, { key: 'BAD-1' })
  const [found] = (await bus.hf.trouble.list({ model: 'processes', domain: 'troubles', type: 'Bad' })).items
  expect(found).toMatchObject({
    id,
    key: 'BAD-1',
    domain: 'troubles',
    type: 'Bad',
    kind: 'PERMANENT',
    code: 'CLOSED',
    message: 'account 7 is closed',
  })
  expect((await bus.hf.trouble.list({ model: 'processes', domain: 'nowhere' })).items).toEqual([])
  expect(await bus.hf.trouble.count({ model: 'processes', fingerprint: found?.fingerprint ?? '' })).toBe(1)
})
