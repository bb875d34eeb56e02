import { randomUUID } from 'node:crypto'
import { waitFor } from '@holdfast/testing/internal'
import { afterAll, expect, test } from 'vitest'
import { defineProcess } from './define.js'
import { by, empty, openOperations } from './operations.fixture.js'
import type { ProcessOf } from './reference.js'

const { bus, work, get, events, repairable } = await openOperations()
afterAll(() => bus.close())

const Refused = defineProcess('refused', 'Refused', { state: empty, execute: async () => 'done' })

const Other = defineProcess('refused', 'Other', { state: empty, execute: async () => 'done' })

type Act = (id: string, process?: ProcessOf<never>, who?: typeof by) => Promise<unknown>

const acts: readonly (readonly [string, string, Act])[] = [
  ['retry', 'retried', (id, process = Refused, who = by) => bus.hf.process({ ...process }, id).retry(who)],
  [
    'cancel',
    'cancelled',
    (id, process = Refused, who = by) => bus.hf.process(process, id).cancel(who, { compensate: false }),
  ],
  ['complete', 'completed', (id, process = Refused, who = by) => bus.hf.process({ ...process }, id).complete(who)],
  ['resume', 'resumed', (id, process = Refused, who = by) => bus.hf.process(process, id).resume(who)],
]

test.each(acts)('P-16 %s is refused for one that has ended, is unknown, or of another type', async (_, did, act) => {
  const { id } = await bus.hf.start(Refused, {}, { key: randomUUID().slice(1) })
  await expect(act(id)).rejects.toMatchObject({
    code: 'HF_WRONG_STATUS',
    message: expect.stringContaining(`process refused/Refused ${id} cannot be ${did}: it is COMPLETED`),
  })
  const unknown = randomUUID()
  await expect(act(unknown)).rejects.toMatchObject({ code: 'HF_NOT_FOUND', details: { id: unknown } })
  await expect(act('NO-SUCH-KEY')).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
  await expect(act(id, Other)).rejects.toMatchObject({
    code: 'HF_OTHER_TYPE',
    details: { actual: 'refused/Refused' },
  })
  await expect(act('')).rejects.toMatchObject({ code: 'HF_INVALID_KEY' })
  await expect(act(id, { domain: 'refused', type: '' })).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  const nobody = { actor: ' ', reason: 'x' }
  await expect(act(id, Refused, nobody)).rejects.toMatchObject({ code: 'HF_INVALID_ACTOR' })
  expect(await events(Refused, id)).toEqual(['PROCESS_CREATED'])
})

test('P-16 retry and resume are refused in states where there is nothing to do', async () => {
  const { Payment, failing } = repairable('states')
  failing.add('AAAA')
  const { id: troubled } = await bus.hf.start(Payment, { iban: 'AAAA' })
  await expect(bus.hf.process(Payment, troubled).resume(by)).rejects.toMatchObject({
    details: { status: 'WAITING_FOR_TSQ', verb: 'resume' },
  })
  const { id: pending } = await bus.hf.start(Payment, { iban: 'BBBB' }, { immediate: false })
  await expect(bus.hf.process(Payment, pending).retry(by)).rejects.toMatchObject({ details: { status: 'PENDING' } })
})

test('P-16 bad input of an operator is refused before anything happens', async () => {
  const { id } = await bus.hf.start(Refused, {}, { immediate: false })
  const wrong = [
    bus.hf.process(Refused, id).cancel(by, { compensate: 'yes' } as never),
    bus.hf.process(Refused, id).complete(by, undefined, { state: ['x'] } as never),
    bus.hf.process(Refused, id).complete(by, 1, { step: 'pay', state: {} } as never),
    bus.hf.process(Refused, id).retry(by, { step: 'pay' }),
  ]
  for (const refused of wrong) await expect(refused).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  await expect(bus.hf.process(Refused, id).retry(by, { dedline: '1h' } as never)).rejects.toMatchObject({
    code: 'HF_UNKNOWN_OPTION',
    message: expect.stringContaining('did you mean `deadline`'),
  })
  expect((await get(Refused, id)).status).toBe('PENDING')
})

test('P-12, P-16 of operators who act at once one succeeds, the others are refused, and the end does not change', async () => {
  const { Payment, failing } = repairable('race')
  failing.add('AAAA')
  await work('race')
  const { id } = await bus.hf.start(Payment, { iban: 'AAAA' })
  const outcomes = await Promise.allSettled([
    ...Array.from({ length: 5 }, () => bus.hf.process(Payment, id).complete(by)),
    ...Array.from({ length: 5 }, () => bus.hf.process(Payment, id).cancel(by, { compensate: false })),
    ...Array.from({ length: 5 }, () => bus.hf.process(Payment, id).retry(by)),
  ])
  for (const outcome of outcomes) {
    if (outcome.status === 'fulfilled') continue
    // A complete that comes after a cancel, and before the worker that carries it out, is refused because of the cancel.
    expect(['HF_WRONG_STATUS', 'HF_BEING_CANCELLED']).toContain(outcome.reason.code)
  }
  const done = outcomes.slice(0, 5).filter(({ status }) => status === 'fulfilled').length
  expect(done).toBeLessThanOrEqual(1)
  const ended = await waitFor('it is over', async () => {
    // A retry that won leads back to troubleshooting: then nobody has ended it yet.
    const { status } = await get(Payment, id)
    if (status === 'WAITING_FOR_TSQ') await bus.hf.process(Payment, id).complete(by)
    return status === 'COMPLETED' || status === 'CANCELLED' ? status : undefined
  })
  for (const act of [
    () => bus.hf.process(Payment, id).complete(by),
    () => bus.hf.process(Payment, id).cancel(by, { compensate: true }),
    () => bus.hf.process(Payment, id).retry(by),
    () => bus.hf.process(Payment, id).resume(by),
  ]) {
    await expect(act()).rejects.toMatchObject({ code: 'HF_WRONG_STATUS', details: { status: ended } })
  }
  await bus.hf.process(Payment, id).respond('corrected', { iban: 'ZZZZ' })
  expect((await get(Payment, id)).status).toBe(ended)
})
