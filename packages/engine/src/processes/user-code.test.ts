import { gate, numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { ProcessContext } from './context.js'
import { defineProcess } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const domain = numbered('user-code')
const never = () => new Promise<never>(() => undefined)

describe('K-23 a reducer or condition that is asynchronous', () => {
  test('is refused: the process waits for a person with a clear code, and its worker lives', async () => {
    const later = async () => {
      await new Promise((resolve) => setTimeout(resolve, 1))
      throw new Error('this would end the program')
    }
    const Asynchronous = defineProcess(domain(), 'Asynchronous', {
      state: z.any(),
      // The types refuse it; JavaScript does not.
      responses: { told: { data: z.any(), apply: later as unknown as () => void } },
      execute: async (ctx: ProcessContext) => void (await ctx.wait('told', () => false)),
    })
    const Condition = defineProcess(domain(), 'Condition', {
      state: z.any(),
      execute: async (ctx: ProcessContext) => void (await ctx.wait('asks', later as unknown as () => boolean)),
    })
    await bus.runProcesses(Asynchronous)
    const { id } = await bus.hf.start(Asynchronous, {})
    await bus.hf.process(Asynchronous, id).respond('told', 1)
    const { error_code, error_message } = await bus.rests(id, 'WAITING_FOR_TSQ')
    expect(error_code).toBe('PERMANENT_FAILURE')
    expect(error_message).toContain('HF_MUST_NOT_BE_ASYNC')
    expect(error_message).toContain('`told`')
    const condition = await bus.hf.start(Condition, {})
    expect((await condition.get()).status).toBe('WAITING_FOR_TSQ')
    expect((await bus.process(condition.id)).error_message).toContain('HF_MUST_NOT_BE_ASYNC')
  })

  test('is refused by the types', () => {
    defineProcess('user-code-types', 'Typed', {
      state: z.object({ n: z.number() }),
      responses: {
        fine: {
          data: z.number(),
          apply: (state, n) => {
            state.n = n
          },
        },
        alsoFine: { data: z.number(), apply: (state, n) => (state.n += n) },
        // @ts-expect-error a reducer must not be asynchronous
        wrong: { data: z.number(), apply: async (state: { n: number }) => void state.n },
      },
      execute: async () => undefined,
    })
  })
})

const misplaced: [string, (ctx: ProcessContext) => Promise<unknown>][] = [
  ['a step', (ctx) => ctx.step('outer', () => ctx.step('inner', () => 1))],
  ['a side effect', (ctx) => ctx.sideEffect('outer', () => ctx.sideEffect('inner', () => 1))],
  ['a transaction', (ctx) => ctx.transaction('outer', () => ctx.step('inner', () => 1))],
  [
    'a step, after it has awaited something',
    (ctx) =>
      ctx.step('outer', async () => {
        await new Promise((resolve) => setTimeout(resolve, 1))
        return ctx.wait('inner', () => true)
      }),
  ],
]

test.each(misplaced)('K-23 a call of ctx inside %s fails at once and says why', async (_, execute) => {
  const Nested = defineProcess(domain(), 'Nested', { state: z.any(), execute })
  const begun = performance.now()
  const { id, status } = await (await bus.hf.start(Nested, {})).get()
  expect(status).toBe('WAITING_FOR_TSQ')
  expect((await bus.process(id)).error_message).toMatch(/HF_CALL_OUT_OF_PLACE.*`inner`/)
  // Neither its time limit nor the grace was waited for.
  expect(performance.now() - begun).toBeLessThan(15_000)
})

describe('K-23 user code that does not return', () => {
  test('in a transaction: it is rolled back, its row and its connection are free, and close() returns', async () => {
    const own = await openTestBus({ connectionString: bus.connectionString })
    const Hangs = defineProcess(domain(), 'Hangs', {
      state: z.any(),
      execute: (ctx: ProcessContext) =>
        ctx.transaction(
          'writes',
          async (tx) => {
            await tx.query('create table if not exists hangs (n int)')
            await never()
          },
          { timeout: '300ms' },
        ),
    })
    const { id, status } = await (await own.hf.start(Hangs, {})).get()
    expect(status).toBe('WAITING_FOR_TSQ')
    expect((await own.process(id)).error_message).toContain('TIMEOUT')
    expect(await own.sql("select to_regclass('hangs') as made")).toEqual([{ made: null }])
    await own.close()
  })

  test('in a side effect: it has a time limit', async () => {
    const own = await openTestBus({ connectionString: bus.connectionString, abortGrace: '10ms' })
    const Hangs = defineProcess(domain(), 'Hangs', {
      state: z.any(),
      execute: async (ctx: ProcessContext) => void (await ctx.sideEffect('reads', never, { timeout: '50ms' })),
    })
    const { id, status } = await (await own.hf.start(Hangs, {})).get()
    expect(status).toBe('WAITING_FOR_TSQ')
    expect((await own.process(id)).error_message).toContain('TIMEOUT')
    await own.close()
  })

  test('in a hook: the process has ended, and its worker continues', async () => {
    const Hangs = defineProcess(domain(), 'Hangs', {
      state: z.any(),
      execute: async () => 'done',
      hookTimeout: '50ms',
      onCompleted: never,
    })
    const { id, status } = await (await bus.hf.start(Hangs, {})).get()
    expect(status).toBe('COMPLETED')
    expect((await bus.process(id)).result).toBe('done')
  })
})

test('P-01 a hook is called once, for the end that is committed: a cancel that came first is not preceded by completed', async () => {
  const told: string[] = []
  const ready = gate()
  const go = gate()
  const Race = defineProcess(domain(), 'Race', {
    state: z.any(),
    execute: (ctx: ProcessContext) =>
      ctx.step('last', async () => {
        ready.open()
        await go.passed
      }),
    onCompleted: () => told.push('completed'),
    onCancelled: () => told.push('cancelled'),
  })
  await bus.runProcesses(Race)
  const { id } = await bus.hf.start(Race, {}, { immediate: false })
  await ready.passed
  // Heard of only by the write that would complete it, or a moment before: in both cases the end is the cancel's.
  await bus.cancel(id, 'PLAIN')
  go.open()
  await bus.rests(id, 'CANCELLED')
  await waitFor('it is told', () => told.length > 0)
  expect(told).toEqual(['cancelled'])
})
