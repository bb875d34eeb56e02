import { openTestBus } from '@holdfast/testing/internal'
import { expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../commands/define.js'
import type { Inquiry } from './context.js'
import { defineProcess } from './define.js'

const Book = defineCommand('typed', 'Book', {
  data: z.object({ amount: z.number() }),
  result: z.object({ reference: z.string() }),
})

const Child = defineProcess('typed', 'Child', {
  state: z.object({ n: z.string().transform(Number) }),
  execute: async (_ctx, state) => ({ twice: state.n * 2 }),
})

const Pay = defineProcess('typed', 'Pay', {
  state: z.object({
    amount: z.string().transform(Number),
    approved: z.boolean().optional(),
    note: z.string().default('none'),
  }),
  responses: {
    decided: {
      data: z.object({ approved: z.boolean(), at: z.string().transform((text) => new Date(text)) }),
      apply(state, data) {
        expectTypeOf(state).toEqualTypeOf<{ amount: number; approved?: boolean | undefined; note: string }>()
        expectTypeOf(data).toEqualTypeOf<{ approved: boolean; at: Date }>()
        state.approved = data.approved
      },
    },
    noted: { data: z.string() },
  },
  deadline: (state) => {
    expectTypeOf(state.amount).toEqualTypeOf<number>()
    return '1h'
  },
  onCompleted: (state) => expectTypeOf(state.note).toEqualTypeOf<string>(),
  async execute(ctx, state) {
    expectTypeOf(state).toEqualTypeOf<{ amount: number; approved?: boolean | undefined; note: string }>()
    const booked = await ctx.step(
      'book',
      async ({ idempotencyKey, attempt, signal }) => {
        expectTypeOf([idempotencyKey, attempt, signal] as const).toEqualTypeOf<readonly [string, number, AbortSignal]>()
        return { reference: 'r1' }
      },
      {
        inquire: (): Inquiry<{ reference: string }> => ({ done: { reference: 'r1' } }),
        compensate: (result, { idempotencyKey, outcome }) => {
          expectTypeOf(result).toEqualTypeOf<{ reference: string } | undefined>()
          expectTypeOf(outcome).toEqualTypeOf<'completed' | 'refused' | 'unknown'>()
          expectTypeOf(idempotencyKey).toEqualTypeOf<string>()
        },
      },
    )
    expectTypeOf(booked).toEqualTypeOf<{ reference: string }>()
    expectTypeOf(await ctx.wait('approval', () => state.approved !== undefined)).toEqualTypeOf<boolean>()
    expectTypeOf(await ctx.event('decided', 'decided')).toEqualTypeOf<{ approved: boolean; at: Date }>()
    expectTypeOf(await ctx.event('maybe', 'noted', { onTimeout: 'return' })).toEqualTypeOf<string | undefined>()
    expectTypeOf(await ctx.sideEffect('rate', () => 1.5)).toEqualTypeOf<number>()
    expectTypeOf(
      await ctx.transaction('t', async (tx) => (await tx.query('select 1')).rows.length),
    ).toEqualTypeOf<number>()
    expectTypeOf(await ctx.command('cmd', Book, { amount: 1 })).toEqualTypeOf<{ reference: string }>()
    expectTypeOf(await ctx.child('c', Child, { n: '1' })).toEqualTypeOf<{ twice: number }>()
    expectTypeOf(ctx.now()).toEqualTypeOf<Date>()
    return booked.reference
  },
})

test('P-01 the types of a definition reach the code that starts it and the code that responds', async () => {
  const bus = await openTestBus()
  const started = await bus.hf.start(Pay, { amount: '5' }, { immediate: false })
  const { id, created } = started
  expectTypeOf(created).toEqualTypeOf<boolean>()
  expect([(await started.get()).status, created]).toEqual(['PENDING', true])
  await bus.hf.process(Pay, id).respond('decided', { approved: true, at: '2026-01-01' })
  const [row] = await bus.sql<{ state: unknown; data: unknown }>(
    `select state, data from holdfast.process_detail join holdfast.process_response on process_id = id where id = $1`,
    [id],
  )
  // Parsed where they enter, and never again.
  expect(row).toEqual({
    state: { amount: 5, note: 'none' },
    data: { approved: true, at: '2026-01-01T00:00:00.000Z' },
  })
  await bus.close()
})

test('P-01 the compiler refuses what does not fit', () => {
  const never = async () => {
    const { hf } = await openTestBus()
    // @ts-expect-error the input is a text
    void hf.start(Pay, { amount: 5 })
    // @ts-expect-error no such response
    void hf.process(Pay, 'id').respond('desided', {})
    // @ts-expect-error data of another response
    void hf.process(Pay, 'id').respond('decided', 'text')
    // @ts-expect-error one of many is wrong
    void hf.startMany(Pay, [{ input: { amount: '1' } }, { input: {} }])
    defineProcess('typed', 'Wrong', {
      state: z.object({ n: z.number() }),
      responses: { told: { data: z.string() } },
      async execute(ctx, state) {
        // @ts-expect-error of another type
        state.n = 'x'
        // @ts-expect-error no such response
        await ctx.event('e', 'other')
        // @ts-expect-error not the child's state
        await ctx.child('c', Child, { n: 1 })
        // @ts-expect-error not the command's data
        await ctx.command('c', Book, { amount: '1' })
        // @ts-expect-error the compensation of another result
        await ctx.step('s', () => 'text', { compensate: (result: number) => result })
        // @ts-expect-error not the state
        await ctx.continueAsNew({ n: 'x' })
      },
    })
  }
  expect(never).toBeTypeOf('function')
})
