import { waitFor } from '@holdfast/testing/internal'
import { afterAll, expect, test } from 'vitest'
import { BusinessError, TransientError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'
import { by, empty, openOperations } from './operations.fixture.js'

const { bus, work, get, until, events } = await openOperations()
afterAll(() => bus.close())

test('P-16 resume makes the next attempt of a step due now', async () => {
  let calls = 0
  const Later = defineProcess('resume-retry', 'Later', {
    state: empty,
    async execute(ctx) {
      return ctx.step(
        'flaky',
        ({ attempt }) => {
          calls += 1
          if (attempt === 1) throw new TransientError('busy')
          return attempt
        },
        { retry: { maxAttempts: 3, delay: '1h' } },
      )
    },
  })
  bus.hf.register(Later)
  await work('resume-retry')
  const { id } = await bus.hf.start(Later, {})
  expect(await get(Later, id)).toMatchObject({ status: 'WAITING_FOR_RETRY', waitingFor: 'flaky' })
  await bus.hf.process(Later, id).resume(by)
  expect(await bus.hf.process(Later, id).result()).toBe(2)
  expect(calls).toBe(2)
  expect(await events(Later, id)).toEqual(['PROCESS_CREATED', 'OPERATOR_RESUME'])
})

test('P-16 resume evaluates a wait’s condition again, and keeps its timeout', async () => {
  let open = false
  const Gate = defineProcess('resume-wait', 'Gate', {
    state: empty,
    execute: (ctx) => ctx.wait('gate', () => open, { timeout: '2h' }),
  })
  bus.hf.register(Gate)
  await work('resume-wait')
  const { id } = await bus.hf.start(Gate, {})
  const { waitTimeoutAt } = await get(Gate, id)
  await bus.hf.process(Gate, id).resume(by)
  await waitFor('it looked and waits on', async () => {
    const { status, leasedBy, dueAt } = await get(Gate, id)
    return status === 'WAITING_FOR_ASYNC' && leasedBy === null && dueAt?.getTime() === waitTimeoutAt?.getTime()
  })
  open = true
  await bus.hf.process(Gate, id).resume(by)
  expect(await bus.hf.process(Gate, id).result()).toBe(true)
})

test('P-16 resume starts a process now that was to start later', async () => {
  const At = defineProcess('resume-start', 'At', { state: empty, execute: async (ctx) => ctx.now().getTime() })
  bus.hf.register(At)
  await work('resume-start')
  const startAt = new Date(Date.now() + 10 * 86_400_000)
  const { id } = await bus.hf.start(At, {}, { startAt })
  expect(await get(At, id)).toMatchObject({ status: 'PENDING', dueAt: startAt })
  await bus.hf.process(At, id).resume(by)
  expect(await bus.hf.process(At, id).result()).toBeLessThan(startAt.getTime())
})

test('P-16 resume makes the next attempt of a compensation due now', async () => {
  let broken = true
  const Undo = defineProcess('resume-undo', 'Undo', {
    state: empty,
    async execute(ctx) {
      await ctx.step('a', () => 'a', {
        compensate: () => {
          if (broken) throw new Error('not now')
        },
      })
      throw new BusinessError('declined')
    },
  })
  bus.hf.register(Undo)
  const { id } = await bus.hf.start(Undo, {})
  expect(await get(Undo, id)).toMatchObject({ status: 'COMPENSATING', nextRetryAt: expect.any(Date) })
  broken = false
  // The next attempt is a minute away: only the resume can make it due.
  await bus.moveClock(-60_000)
  await bus.hf.process(Undo, id).resume(by)
  await work('resume-undo')
  await until(Undo, id, 'COMPENSATED')
  await bus.moveClock(60_000)
})
