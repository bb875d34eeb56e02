import { waitFor } from '@holdfast/testing/internal'
import { afterAll, expect, test } from 'vitest'
import { z } from 'zod'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'
import { by, openOperations } from './operations.fixture.js'

const { bus, processes, work, until, repairable } = await openOperations()
afterAll(() => bus.close())

test('P-16 many are retried, cancelled or completed at once, each with its own answer', async () => {
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
  expect(group).toMatchObject({ count: 3, type: 'Payment', code: 'RETRIES_EXHAUSTED' })
  failing.clear()
  const answers = await processes().retryMany(Payment, ['KEY AAAA', done, 'KEY ZZZZ'], by)
  expect(answers).toEqual([
    { process: 'KEY AAAA', outcome: 'done' },
    {
      process: done,
      outcome: 'refused',
      code: 'HF_WRONG_STATUS',
      message: `process ${done} cannot be retried: it is COMPLETED`,
    },
    { process: 'KEY ZZZZ', outcome: 'refused', code: 'HF_NOT_FOUND', message: expect.any(String) },
  ])
  expect(await bus.hf.process(Payment, a).result()).toBe('paid AAAA')
  expect(await processes().completeMany(Payment, [b], by, 'by hand')).toEqual([{ process: b, outcome: 'done' }])
  expect(await bus.hf.process(Payment, b).result()).toBe('by hand')
  const left = { fingerprint: group?.fingerprint ?? '' }
  expect(await processes().cancelMany(Payment, left, by, { compensate: false })).toEqual([
    { process: c, outcome: 'done' },
  ])
  await until(Payment, c, 'CANCELLED')
  expect(await processes().retryMany(Payment, 'all', by)).toEqual([])
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
    code: 'PERMANENT_FAILURE',
    message: 'CLOSED: account 7 is closed',
  })
  expect((await bus.hf.trouble.list({ model: 'processes', domain: 'nowhere' })).items).toEqual([])
  expect(await bus.hf.trouble.count({ model: 'processes', fingerprint: found?.fingerprint ?? '' })).toBe(1)
  await expect(processes().troubles.list({ limit: 0 })).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
})
