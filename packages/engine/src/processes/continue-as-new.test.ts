import { gate, numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../commands/index.js'
import { BusinessError } from '../kernel/failure/failure-errors.js'
import type { ProcessContext } from './context.js'
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
      await ctx.step('work', ({ idempotencyKey }) => keys.push(idempotencyKey))
      if (state.turn < 3) await ctx.continueAsNew({ turn: state.turn + 1, at: new Date(state.turn) })
      return [state.turn, state.at.getTime(), ctx.key]
    },
  })
  await bus.runProcesses(Loop)
  const { id, status } = await (await bus.hf.start(Loop, { turn: 1, at: new Date(0) }, { key: 'LOOP' })).get()
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

test('P-24 a state that its schema transforms, or gives defaults to, is passed on as `execute` has it', async () => {
  const Loop = defineProcess(domain(), 'Loop', {
    state: z.object({
      turn: z.string().transform(Number),
      at: z.iso.datetime().transform((text) => new Date(text)),
      note: z.string().default('none'),
    }),
    async execute(ctx, state) {
      if (state.turn < 3) await ctx.continueAsNew({ ...state, turn: state.turn + 1 })
      return [state.turn, state.at.getTime(), state.note]
    },
  })
  await bus.runProcesses(Loop)
  const { id } = await bus.hf.start(Loop, { turn: '1', at: '1970-01-01T00:00:05Z' })
  expect((await bus.rests(id, 'COMPLETED')).result).toEqual([3, 5_000, 'none'])
})

test('P-24 a state that cannot be stored is the process’s own failure', async () => {
  const Loop = defineProcess(domain(), 'Loop', {
    state: z.object({ turn: z.unknown() }),
    execute: (ctx) => ctx.continueAsNew({ turn: () => 1 }),
  })
  await bus.runProcesses(Loop)
  const { id } = await bus.hf.start(Loop, { turn: 1 })
  expect((await bus.rests(id, 'WAITING_FOR_TSQ')).error_message).toContain('HF_NOT_ENCODABLE')
})

test('P-24 a response that a reducer has applied to the state is not carried over', async () => {
  const Sum = defineProcess(domain(), 'Sum', {
    state: z.object({ sum: z.number(), turn: z.number() }),
    responses: { ...told, note: { data: z.string() } },
    async execute(ctx, state) {
      const before = state.sum
      await ctx.wait('told', () => state.sum > before)
      return ctx.continueAsNew({ sum: state.sum, turn: state.turn + 1 })
    },
  })
  await bus.runProcesses(Sum)
  const { id } = await bus.hf.start(Sum, { sum: 0, turn: 1 })
  await bus.hf.process(Sum, id).respond('note', 'for an event')
  for (const n of [1, 2, 3]) {
    await bus.hf.process(Sum, id).respond('told', n)
    await waitFor(`turn ${n + 1}`, async () => ((await bus.process(id)).state as { turn: number }).turn > n)
  }
  const [kept] = await bus.sql('select state_unmet, state_events from holdfast.process_detail where id = $1', [id])
  expect(kept).toEqual({ state_unmet: [1], state_events: [] })
})

test('P-24 a claim reads no response of earlier generations, however many there are', async () => {
  const Loop = defineProcess(domain(), 'Loop', {
    state: z.object({ sum: z.number() }),
    responses: { ...told, note: { data: z.string() } },
    async execute(ctx, state) {
      await ctx.event('told', 'told')
      return ctx.continueAsNew(state)
    },
  })
  const { id } = await bus.hf.start(Loop, { sum: 0 }, { immediate: false })
  await bus.sql(
    `insert into holdfast.process_response (process_id, number, name, response_id, at, data)
     select $1, n, case n when 7 then 'note' else 'told' end, n::text, now(), '1' from generate_series(1, 50000) as n`,
    [id],
  )
  await bus.sql('update holdfast.process set responses = 50000, generation = 2, due_at = null where id = $1', [id])
  await bus.sql(`update holdfast.process_detail set state_responses = 49999, state_unmet = '[7]' where id = $1`, [id])
  await bus.sql('vacuum analyze holdfast.process_response')
  const client = new pg.Client({ connectionString: bus.connectionString })
  await client.connect()
  const read = async () => {
    await client.query('select pg_stat_force_next_flush()')
    const { rows } = await client.query(
      `select idx_tup_fetch + seq_tup_read as rows from pg_stat_user_tables where relid = 'holdfast.process_response'::regclass`,
    )
    return Number(rows[0].rows)
  }
  const before = await read()
  const { rows } = await client.query(`select holdfast.lease_processes(array[$1::uuid], 'test', 1000) as items`, [id])
  expect(rows[0].items[0].responses.map(([number]: [number]) => number)).toEqual([7, 50000])
  expect((await read()) - before).toBeLessThanOrEqual(10)
  await client.end()
})

test('P-24 unread responses and events are carried over, and none is read twice', async () => {
  const Sum = defineProcess(domain(), 'Sum', {
    state: z.object({ sum: z.number(), turn: z.number() }),
    responses: { ...told, note: { data: z.string() } },
    async execute(ctx, state) {
      await ctx.event('told', 'told')
      if (state.turn < 3) await ctx.continueAsNew({ sum: state.sum, turn: state.turn + 1 })
      return [state.sum, await ctx.event('note', 'note')]
    },
  })
  const { id } = await bus.hf.start(Sum, { sum: 0, turn: 1 }, { immediate: false })
  await bus.hf.process(Sum, id).respond('note', 'kept through all generations')
  for (const n of [1, 10]) await bus.hf.process(Sum, id).respond('told', n)
  await bus.runProcesses(Sum)
  await waitFor('two have been taken', async () => {
    const [row] = await bus.sql<{ generation: number }>('select generation from holdfast.process where id = $1', [id])
    return row?.generation === 3
  })
  await bus.rests(id, 'WAITING_FOR_ASYNC')
  await bus.hf.process(Sum, id).respond('told', 100)
  expect((await bus.rests(id, 'COMPLETED')).result).toEqual([111, 'kept through all generations'])
})

test('P-24 an open wait beside it takes no response that the new generation would miss', async () => {
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
  const { id } = await bus.hf.start(Sum, { sum: 0, again: false }, { immediate: false })
  for (const n of [1, 10]) await bus.hf.process(Sum, id).respond('told', n)
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
  await bus.hf.process(Loop, id).respond('note', 'unmet')
  for (const n of [1, 2, 3, 4]) await bus.hf.process(Loop, id).respond('told', n)
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

test('P-24 steps that run beside it are recorded before the history ends', async () => {
  let calls = 0
  const Loop = defineProcess(domain(), 'Loop', {
    state: z.object({ turn: z.number() }),
    async execute(ctx, state) {
      if (state.turn === 2) return 'end'
      void ctx.step('beside', () => (calls += 1))
      return ctx.continueAsNew({ turn: 2 })
    },
  })
  await bus.runProcesses(Loop)
  const { id } = await bus.hf.start(Loop, { turn: 1 })
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('end')
  expect([calls, await bus.history(id)]).toEqual([1, ['STEP beside COMPLETED']])
})

describe('K-19 P-24 continueAsNew forgets nothing that may have to be undone', () => {
  const by = { actor: 'ann', reason: 'a test' }

  test('with a command under way it waits for a person, and a cancel undoes the command after its end', async () => {
    const name = domain()
    const Do = defineCommand(`${name}-bank`, 'Do', { data: z.any(), result: z.string() })
    const bank = gate()
    const undone: unknown[] = []
    const Loop = defineProcess(name, 'Loop', {
      state: z.object({ turn: z.number() }),
      async execute(ctx, { turn }) {
        void ctx.command('pay', Do, 1, { compensate: (result) => undone.push(result) })
        await ctx.sleep('a while', '1ms')
        return ctx.continueAsNew({ turn: turn + 1 }, { keepEffects: true })
      },
    })
    await bus.runProcesses(Loop)
    await bus.work(Do, async () => {
      await bank.passed
      return 'receipt'
    })
    const { id } = await bus.hf.start(Loop, { turn: 1 })
    const stuck = await bus.rests(id, 'WAITING_FOR_TSQ')
    expect(stuck.error_message).toContain('HF_CONTINUE_WITH_OPEN_CALLS')
    expect(stuck.error_message).toContain('`pay`')
    await bus.hf.process(Loop, id).cancel(by, { compensate: true })
    await bus.rests(id, 'COMPENSATING')
    bank.open()
    await bus.rests(id, 'CANCELLED')
    expect(undone).toEqual(['receipt'])
  })

  /** A loop of two turns, each with a payment; the second one is refused. */
  const paying = (keepEffects: boolean) => {
    const undone: string[] = []
    const pay = (ctx: ProcessContext, turn: number) =>
      ctx.step('pay', () => `payment ${turn}`, { compensate: (payment) => undone.push(payment ?? 'unknown') })
    const Loop = defineProcess(domain(), 'Loop', {
      state: z.object({ turn: z.number() }),
      async execute(ctx, { turn }) {
        await pay(ctx, turn)
        if (turn === 2) throw new BusinessError('enough')
        return ctx.continueAsNew({ turn: 2 }, keepEffects ? { keepEffects } : undefined)
      },
    })
    return { Loop, undone }
  }

  test('with a compensation that may be needed it waits for an operator, and a cancel runs it', async () => {
    const { Loop, undone } = paying(false)
    await bus.runProcesses(Loop)
    const { id } = await bus.hf.start(Loop, { turn: 1 })
    const stuck = await bus.rests(id, 'WAITING_FOR_TSQ')
    expect(stuck.error_message).toContain('HF_CONTINUE_WITH_COMPENSATIONS')
    expect(stuck.error_message).toContain('`pay`')
    await bus.hf.process(Loop, id).cancel(by, { compensate: true })
    await bus.rests(id, 'CANCELLED')
    expect(undone).toEqual(['payment 1'])
  })

  test('with keepEffects what was done stays done, and the next turn undoes only its own', async () => {
    const { Loop, undone } = paying(true)
    await bus.runProcesses(Loop)
    const { id } = await bus.hf.start(Loop, { turn: 1 })
    await bus.rests(id, 'COMPENSATED')
    expect(undone).toEqual(['payment 2'])
  })

  test('a child that fails in a later generation may have done something in an earlier one', async () => {
    const undone: unknown[] = []
    const name = domain()
    const Child = defineProcess(name, 'Child', {
      state: z.object({ turn: z.number() }),
      async execute(ctx, { turn }) {
        if (turn === 2) await ctx.wait('never', () => false, { timeout: '1ms', onTimeout: 'fail' })
        await ctx.step('pay', () => 'paid')
        return ctx.continueAsNew({ turn: 2 })
      },
    })
    const Parent = defineProcess(name, 'Parent', {
      state: z.any(),
      execute: async (ctx: ProcessContext) => {
        await ctx.child('child', Child, { turn: 1 }, { compensate: (_, { outcome }) => undone.push(outcome) })
      },
    })
    bus.hf.register(Child)
    await bus.runProcesses(Parent)
    const { id } = await bus.hf.start(Parent, {})
    await bus.rests(id, 'COMPENSATED')
    expect(undone).toEqual(['unknown'])
  })
})
