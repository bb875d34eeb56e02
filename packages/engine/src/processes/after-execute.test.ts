import { gate, numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { BusinessError, PermanentError, TransientError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus({ abortGrace: '30ms' })
})
afterAll(() => bus.close())

const domain = numbered('after-execute')
const anything = z.any()

test.each<[string, () => Error]>([
  ['a business failure', () => new BusinessError('declined')],
  ['a permanent one', () => new PermanentError('closed')],
  ['one that would be tried again', () => new TransientError('busy')],
])('P-06 a loser that fails after execute has returned decides nothing: %s', async (_, failure) => {
  const slow = gate()
  const called: string[] = []
  const Race = defineProcess(domain(), 'Race', {
    state: anything,
    async execute(ctx) {
      const winner = await Promise.race([
        ctx.step(
          'slow',
          async () => {
            called.push('slow')
            await slow.passed
            throw failure()
          },
          { retry: { maxAttempts: 3, delay: 0 } },
        ),
        ctx.step('fast', () => 'fast', { compensate: () => void called.push('undone') }),
      ])
      slow.open()
      return winner
    },
  })
  const { id, status } = await (await bus.hf.start(Race, {})).get()
  expect(status).toBe('COMPLETED')
  expect(await bus.process(id)).toMatchObject({ result: 'fast', error_code: null })
  expect(await bus.history(id)).toEqual(['STEP fast COMPLETED', 'STEP slow FAILED'])
  expect(called).toEqual(['slow'])
})

test('P-06 a loser whose retry is due when execute has returned is not tried again', async () => {
  const called: string[] = []
  const Race = defineProcess(domain(), 'Race', {
    state: anything,
    execute: (ctx) =>
      Promise.race([
        ctx.step(
          'flaky',
          () => {
            called.push('flaky')
            throw new TransientError('busy')
          },
          { retry: { maxAttempts: 3, delay: 0 } },
        ),
        ctx.step('fast', () => 'fast'),
      ]),
  })
  const { id, status } = await (await bus.hf.start(Race, {})).get()
  expect([status, (await bus.process(id)).result]).toEqual(['COMPLETED', 'fast'])
  expect(called).toEqual(['flaky'])
})

test('P-06 the worker that continues after a crash finds that the loser decides nothing', async () => {
  const slow = gate()
  let runs = 0
  const Race = defineProcess(domain(), 'Race', {
    state: anything,
    async execute(ctx) {
      const winner = await Promise.race([
        ctx.step('declined', async () => {
          await slow.passed
          throw new BusinessError('declined')
        }),
        ctx.step('hangs', () => (runs++ === 0 ? new Promise<string>(() => undefined) : 'late'), { timeout: '1h' }),
        ctx.step('fast', () => 'fast'),
      ])
      slow.open()
      return winner
    },
  })
  const first = await bus.runProcesses(Race)
  const { id } = await bus.hf.start(Race, {}, { immediate: false })
  await waitFor('the loser is on record', async () => (await bus.history(id)).includes('STEP declined FAILED'))
  first.stopNow()
  await bus.moveClock(31_000)
  await bus.hf.run({ domains: [Race.domain], poll: '20ms' })
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('fast')
  expect(await bus.history(id)).toEqual([
    'STEP fast COMPLETED',
    'STEP declined FAILED',
    // The next worker wrote down that it may have begun.
    'STEP hangs STARTED',
    'STEP hangs COMPLETED',
  ])
})

test('P-17 a loser of unknown outcome still needs an operator', async () => {
  const Race = defineProcess(domain(), 'Race', {
    state: anything,
    execute: (ctx) =>
      Promise.race([
        ctx.step('pay', () => new Promise<string>(() => undefined), { atMostOnce: true, timeout: 20 }),
        ctx.step('fast', () => 'fast'),
      ]),
  })
  const { id, status } = await (await bus.hf.start(Race, {})).get()
  expect([status, (await bus.process(id)).error_code]).toEqual(['WAITING_FOR_TSQ', 'OUTCOME_UNKNOWN'])
})

test('P-24 a loser that fails after continueAsNew decides nothing', async () => {
  const slow = gate()
  const Race = defineProcess(domain(), 'Race', {
    state: z.object({ round: z.number() }),
    async execute(ctx, state) {
      if (state.round > 1) return 'second round'
      void ctx.step('slow', async () => {
        await slow.passed
        throw new BusinessError('declined')
      })
      await ctx.step('fast', () => 'fast')
      slow.open()
      return ctx.continueAsNew({ round: 2 })
    },
  })
  await bus.runProcesses(Race)
  const { id } = await bus.hf.start(Race, { round: 1 })
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('second round')
})

test('P-07 a step that is not awaited is called and recorded before the end', async () => {
  const Forget = defineProcess(domain(), 'Forget', {
    state: anything,
    async execute(ctx) {
      void ctx.step('forgotten', () => 'done')
      return 'end'
    },
  })
  const { id, status } = await (await bus.hf.start(Forget, {})).get()
  expect(status).toBe('COMPLETED')
  expect(await bus.history(id)).toEqual(['STEP forgotten COMPLETED'])
})
