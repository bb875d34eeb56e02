import { numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineProcess } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const domain = numbered('continue')
const told = {
  told: {
    data: z.number(),
    apply: (state: { sum: number }, n: number) => {
      state.sum += n
    },
  },
}

test('P-24 a loop goes on with a fresh history under the same id and key', async () => {
  const keys: string[] = []
  const drawn: string[] = []
  const Loop = defineProcess(domain(), 'Loop', {
    state: z.object({ turn: z.number(), at: z.date() }),
    async execute(ctx, state) {
      drawn.push(ctx.uuid())
      await ctx.step('work', { run: ({ idempotencyKey }) => keys.push(idempotencyKey) })
      if (state.turn < 3) await ctx.continueAsNew({ turn: state.turn + 1, at: new Date(state.turn) })
      return [state.turn, state.at.getTime(), ctx.key]
    },
  })
  await bus.runProcesses(Loop)
  const { id, status } = await bus.hf.start(Loop, { turn: 1, at: new Date(0) }, { key: 'LOOP' })
  expect(status).toBe('PENDING')
  expect(await bus.rests(id, 'COMPLETED')).toMatchObject({ result: [3, 2, 'LOOP'] })
  expect(keys).toEqual([`${id}/work`, `${id}#2/work`, `${id}#3/work`])
  expect(new Set(drawn).size).toBe(3)
  const rows = await bus.sql<{ generation: number; seq: number }>(
    'select generation, seq from holdfast.process_history where process_id = $1 order by 1, 2',
    [id],
  )
  expect(rows).toEqual([1, 2, 3].map((generation) => ({ generation, seq: 1 })))
  expect(await bus.hf.start(Loop, { turn: 1, at: new Date(0) }, { key: 'LOOP' })).toMatchObject({ id, created: false })
})

test('P-24 the state is parsed; one that does not fit is the process’s own failure', async () => {
  const Loop = defineProcess(domain(), 'Loop', {
    state: z.object({ turn: z.number().max(2), note: z.string().default('none') }),
    async execute(ctx, state) {
      return ctx.continueAsNew({ ...state, turn: state.turn + 1 })
    },
  })
  await bus.runProcesses(Loop)
  const { id } = await bus.hf.start(Loop, { turn: 1 })
  const { error_message } = await bus.rests(id, 'WAITING_FOR_TSQ')
  expect(error_message).toMatch(/HF_INVALID_DATA.*continueAsNew/)
})

test('P-24 responses and events that nobody has met are carried over, and none is met twice', async () => {
  const Sum = defineProcess(domain(), 'Sum', {
    state: z.object({ sum: z.number(), turn: z.number() }),
    responses: { ...told, note: { data: z.string() } },
    async execute(ctx, state) {
      await ctx.event('told', 'told')
      if (state.turn < 3) await ctx.continueAsNew({ sum: state.sum, turn: state.turn + 1 })
      return [state.sum, await ctx.event('note', 'note')]
    },
  })
  const { id } = await bus.hf.start(Sum, { sum: 0, turn: 1 }, { deferred: true })
  await bus.hf.respond(Sum, id, 'note', 'kept through all generations')
  for (const n of [1, 10]) await bus.hf.respond(Sum, id, 'told', n)
  await bus.runProcesses(Sum)
  await waitFor('two have been taken', async () => {
    const [row] = await bus.sql<{ generation: number }>('select generation from holdfast.process where id = $1', [id])
    return row?.generation === 3
  })
  await bus.rests(id, 'WAITING_FOR_ASYNC')
  await bus.hf.respond(Sum, id, 'told', 100)
  expect((await bus.rests(id, 'COMPLETED')).result).toEqual([111, 'kept through all generations'])
})

test('P-24 a wait that is open beside it takes no response that the new state would not have', async () => {
  const Sum = defineProcess(domain(), 'Sum', {
    state: z.object({ sum: z.number(), again: z.boolean() }),
    responses: told,
    async execute(ctx, state) {
      if (!state.again) {
        void ctx.wait('never', () => false)
        await ctx.continueAsNew({ sum: state.sum, again: true })
      }
      await ctx.wait('both', () => state.sum === 11)
      return state.sum
    },
  })
  const { id } = await bus.hf.start(Sum, { sum: 0, again: false }, { deferred: true })
  for (const n of [1, 10]) await bus.hf.respond(Sum, id, 'told', n)
  await bus.runProcesses(Sum)
  expect((await bus.rests(id, 'COMPLETED')).result).toBe(11)
})

test('P-24 a claim reads the history and the responses of its own generation only', async () => {
  const Loop = defineProcess(domain(), 'Loop', {
    state: z.object({ sum: z.number() }),
    responses: { ...told, note: { data: z.string() } },
    async execute(ctx, state) {
      for (const turn of [1, 2, 3]) await ctx.event(`told ${turn}`, 'told')
      return ctx.continueAsNew(state)
    },
  })
  const { id } = await bus.hf.start(Loop, { sum: 0 })
  const worker = await bus.runProcesses(Loop)
  await bus.hf.respond(Loop, id, 'note', 'unmet')
  for (const n of [1, 2, 3, 4]) await bus.hf.respond(Loop, id, 'told', n)
  await waitFor('the second generation waits', async () => (await bus.process(id)).waiting_for === 'told 2')
  await bus.rests(id, 'WAITING_FOR_ASYNC')
  await worker.stop()
  const [row] = await bus.sql<{ items: { history: unknown[]; responses: [number, string][] }[] }>(
    `select holdfast.lease_processes(array[$1::uuid], 'test', 1000) as items`,
    [id],
  )
  const [item] = row?.items ?? []
  expect(item?.responses.map(([number, name]) => [number, name])).toEqual([
    [1, 'note'],
    [5, 'told'],
  ])
  expect(item?.history).toHaveLength(2)
})

test('P-24 what runs beside it is recorded before the history ends', async () => {
  let calls = 0
  const Loop = defineProcess(domain(), 'Loop', {
    state: z.object({ turn: z.number() }),
    async execute(ctx, state) {
      if (state.turn === 2) return 'end'
      void ctx.step('beside', { run: () => (calls += 1) })
      return ctx.continueAsNew({ turn: 2 })
    },
  })
  await bus.runProcesses(Loop)
  const { id } = await bus.hf.start(Loop, { turn: 1 })
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('end')
  expect([calls, await bus.history(id)]).toEqual([1, ['STEP beside COMPLETED']])
})
