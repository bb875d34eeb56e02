import { randomUUID } from 'node:crypto'
import { waitFor } from '@holdfast/testing/internal'
import { afterAll, expect, test } from 'vitest'
import { defineProcess } from './define.js'
import { by, empty, openOperations } from './operations.fixture.js'
import type { ProcessOf } from './reference.js'

const { bus, processes, work, get, events, repairable } = await openOperations()
afterAll(() => bus.close())

const Refused = defineProcess('refused', 'Refused', { state: empty, execute: async () => 'done' })

const Other = defineProcess('refused', 'Other', { state: empty, execute: async () => 'done' })

type Act = (id: string, process?: ProcessOf<never>, who?: typeof by) => Promise<unknown>

const acts: readonly (readonly [string, string, Act])[] = [
  ['retry', 'retried', (id, process = Refused, who = by) => processes().retry({ ...process }, id, who)],
  [
    'cancel',
    'cancelled',
    (id, process = Refused, who = by) => processes().cancel(process, id, who, { compensate: false }),
  ],
  ['complete', 'completed', (id, process = Refused, who = by) => processes().complete({ ...process }, id, who)],
  ['resume', 'resumed', (id, process = Refused, who = by) => processes().resume(process, id, who)],
]

test.each(acts)('P-16 %s is refused for one that has ended, is unknown, or of another type', async (_, did, act) => {
  const { id } = await bus.hf.start(Refused, {}, { key: randomUUID().slice(1) })
  await expect(act(id)).rejects.toMatchObject({
    code: 'HF_WRONG_STATUS',
    message: `process ${id} cannot be ${did}: it is COMPLETED`,
  })
  const unknown = randomUUID()
  await expect(act(unknown)).rejects.toMatchObject({ code: 'HF_UNKNOWN_PROCESS', details: { id: unknown } })
  await expect(act('NO-SUCH-KEY')).rejects.toMatchObject({ code: 'HF_UNKNOWN_PROCESS' })
  await expect(act(id, Other)).rejects.toMatchObject({
    code: 'HF_PROCESS_OF_OTHER_TYPE',
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
  await expect(processes().resume(Payment, troubled, by)).rejects.toMatchObject({
    details: { status: 'WAITING_FOR_TSQ', operation: 'resumed' },
  })
  const { id: pending } = await bus.hf.start(Payment, { iban: 'BBBB' }, { deferred: true })
  await expect(processes().retry(Payment, pending, by)).rejects.toMatchObject({ details: { status: 'PENDING' } })
})

test('P-16 bad input of an operator is refused before anything happens', async () => {
  const { id } = await bus.hf.start(Refused, {}, { deferred: true })
  const wrong = [
    processes().cancel(Refused, id, by, {} as never),
    processes().cancel(Refused, id, by, { compensate: 'yes' } as never),
    processes().complete(Refused, id, by, { state: ['x'] } as never),
    processes().retryMany(Refused, { fingerprint: undefined } as never, by),
  ]
  for (const refused of wrong) await expect(refused).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  await expect(processes().retry(Refused, id, by, { dedline: '1h' } as never)).rejects.toMatchObject({
    code: 'HF_UNKNOWN_OPTION',
    message: expect.stringContaining('did you mean `deadline`'),
  })
  expect((await get(Refused, id)).status).toBe('PENDING')
})

test('P-12, P-16 of operators who act at once one wins, the others are told, and the end stays what it is', async () => {
  const { Payment, failing } = repairable('race')
  failing.add('AAAA')
  await work('race')
  const { id } = await bus.hf.start(Payment, { iban: 'AAAA' })
  const outcomes = await Promise.allSettled([
    ...Array.from({ length: 5 }, () => processes().complete(Payment, id, by)),
    ...Array.from({ length: 5 }, () => processes().cancel(Payment, id, by, { compensate: false })),
    ...Array.from({ length: 5 }, () => processes().retry(Payment, id, by)),
  ])
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'HF_WRONG_STATUS' })
  }
  const done = outcomes.slice(0, 5).filter(({ status }) => status === 'fulfilled').length
  expect(done).toBeLessThanOrEqual(1)
  const ended = await waitFor('it is over', async () => {
    // A retry that won leads back to troubleshooting: then nobody has ended it yet.
    const { status } = await get(Payment, id)
    if (status === 'WAITING_FOR_TSQ') await processes().complete(Payment, id, by)
    return status === 'COMPLETED' || status === 'CANCELLED' ? status : undefined
  })
  for (const act of [
    () => processes().complete(Payment, id, by),
    () => processes().cancel(Payment, id, by, { compensate: true }),
    () => processes().retry(Payment, id, by),
    () => processes().resume(Payment, id, by),
  ]) {
    await expect(act()).rejects.toMatchObject({ code: 'HF_WRONG_STATUS', details: { status: ended } })
  }
  await bus.hf.respond(Payment, id, 'corrected', { iban: 'ZZZZ' })
  expect((await get(Payment, id)).status).toBe(ended)
})
