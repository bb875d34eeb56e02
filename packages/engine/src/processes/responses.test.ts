import { gate, numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { PermanentError, TransientError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const domain = numbered('responses')
const tally = z.object({ got: z.array(z.number()).default([]) })
const told = { told: { data: z.number(), apply: (state: z.infer<typeof tally>, n: number) => void state.got.push(n) } }

/** Waits until so many have been told. */
const collector = (wanted: number) =>
  defineProcess(domain(), 'Collect', {
    state: tally,
    responses: told,
    async execute(ctx, state) {
      await ctx.wait('all', () => state.got.length >= wanted)
      return state.got.length
    },
  })

const responsesOf = (id: string) =>
  bus.sql<{ number: number; name: string }>(
    'select number, name from holdfast.process_response where process_id = $1 order by number',
    [id],
  )

test('P-11 100 concurrent responses to one process: none lost, each numbered once', async () => {
  const Collect = collector(100)
  await bus.runProcesses(Collect, { concurrency: 10 })
  const { id } = await bus.hf.start(Collect, {})
  await Promise.all(Array.from({ length: 100 }, (_, n) => bus.hf.process(Collect, id).respond('told', n)))
  const { state } = await bus.rests(id, 'COMPLETED')
  expect((state as z.infer<typeof tally>).got.toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: 100 }, (_, n) => n),
  )
  expect((await responsesOf(id)).map(({ number }) => number)).toEqual(Array.from({ length: 100 }, (_, n) => n + 1))
})

test('P-11 a responseId makes a response idempotent, also at the same moment and after the end', async () => {
  const Collect = collector(2)
  await bus.runProcesses(Collect)
  const { id } = await bus.hf.start(Collect, {})
  const once = { responseId: 'bank-1' }
  await Promise.all(Array.from({ length: 5 }, () => bus.hf.process(Collect, id).respond('told', 1, once)))
  await bus.hf.process(Collect, id).respond('told', 1, once)
  expect(await responsesOf(id)).toHaveLength(1)
  await bus.hf.process(Collect, id).respond('told', 2)
  expect((await bus.rests(id, 'COMPLETED')).state).toEqual({ got: [1, 2] })
  await bus.hf.process(Collect, id).respond('told', 1, once)
  expect((await bus.process(id)).state).toEqual({ got: [1, 2] })
  expect(await bus.events(id)).not.toContain('LATE_ASYNC_RESPONSE')
})

test('P-11 a response may come before its wait is reached, and before the process has begun', async () => {
  const Collect = collector(2)
  const { id } = await bus.hf.start(Collect, {}, { immediate: false })
  await bus.hf.process(Collect, id).respond('told', 7)
  await bus.hf.process(Collect, id).respond('told', 8)
  await bus.runProcesses(Collect)
  expect((await bus.rests(id, 'COMPLETED')).state).toEqual({ got: [7, 8] })
})

test('P-11 by key as well as by id', async () => {
  const Collect = collector(1)
  await bus.runProcesses(Collect)
  const { id } = await bus.hf.start(Collect, {}, { key: 'PAY-1' })
  await bus.hf.process(Collect, 'PAY-1').respond('told', 3)
  expect((await bus.rests(id, 'COMPLETED')).state).toEqual({ got: [3] })
})

test('P-11 while waiting for a retry a response is recorded and the process not resumed', async () => {
  let calls = 0
  const Retry = defineProcess(domain(), 'Retry', {
    state: tally,
    responses: told,
    async execute(ctx, state) {
      await ctx.step(
        'busy',
        () => {
          calls += 1
          if (calls === 1) throw new TransientError('busy')
        },
        { retry: { maxAttempts: 2, delay: '1h' } },
      )
      await ctx.wait('one', () => state.got.length > 0)
      return state.got
    },
  })
  const { id } = await bus.hf.start(Retry, {})
  const { due_at } = await bus.rests(id, 'WAITING_FOR_RETRY')
  await bus.hf.process(Retry, id).respond('told', 5)
  expect(await bus.process(id)).toMatchObject({ status: 'WAITING_FOR_RETRY', due_at })
  await bus.runProcesses(Retry)
  await bus.moveClock(3_600_001)
  expect((await bus.rests(id, 'COMPLETED')).result).toEqual([5])
  await bus.moveClock(0)
})

test('P-11 in troubleshooting a response is recorded and the process stays', async () => {
  const Trouble = defineProcess(domain(), 'Trouble', {
    state: tally,
    responses: told,
    execute: async (ctx) =>
      void (await ctx.step('fail', () => {
        throw new PermanentError('no')
      })),
  })
  const { id } = await bus.hf.start(Trouble, {})
  await bus.hf.process(Trouble, id).respond('told', 5)
  expect(await bus.process(id)).toMatchObject({ status: 'WAITING_FOR_TSQ', due_at: null })
  expect(await responsesOf(id)).toHaveLength(1)
})

test('P-11 a response to an ended process is in its projection and audited, and replays nothing', async () => {
  let executions = 0
  const Done = defineProcess(domain(), 'Done', {
    state: tally,
    responses: told,
    execute: async (_ctx, state) => {
      executions += 1
      state.got.push(0)
    },
  })
  await bus.runProcesses(Done)
  const { id } = await bus.hf.start(Done, {})
  await Promise.all([1, 2, 3].map((n) => bus.hf.process(Done, id).respond('told', n)))
  const { state, status } = await bus.process(id)
  expect((state as z.infer<typeof tally>).got.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3])
  expect([status, executions]).toEqual(['COMPLETED', 1])
  expect((await bus.events(id)).filter((event) => event === 'LATE_ASYNC_RESPONSE')).toHaveLength(3)
})

test('P-11 a late response whose reducer throws is recorded all the same', async () => {
  const Done = defineProcess(domain(), 'Done', {
    state: tally,
    responses: {
      bad: {
        data: z.number(),
        apply: () => {
          throw new Error('broken reducer')
        },
      },
    },
    execute: async () => undefined,
  })
  const { id } = await bus.hf.start(Done, { got: [1] })
  await bus.hf.process(Done, id).respond('bad', 1)
  expect((await bus.process(id)).state).toEqual({ got: [1] })
  expect(await bus.events(id)).toContain('LATE_ASYNC_RESPONSE')
})

test('P-11 K-15 in a caller’s transaction: only an inbox row, handed over after the commit, never after a rollback', async () => {
  const Collect = collector(1)
  await bus.runProcesses(Collect)
  const { id } = await bus.hf.start(Collect, {}, { key: 'IN-TX' })
  const client = new pg.Client({ connectionString: bus.connectionString })
  await client.connect()
  try {
    await client.query('begin')
    await bus.hf.process(Collect, id).respond('told', 1, { transaction: client })
    await client.query('rollback')
    await client.query('begin')
    await bus.hf.process(Collect, 'IN-TX').respond('told', 2, { transaction: client })
    expect(await responsesOf(id)).toHaveLength(0)
    await client.query('commit')
  } finally {
    await client.end()
  }
  expect((await bus.rests(id, 'COMPLETED')).state).toEqual({ got: [2] })
  expect(await bus.sql('select * from holdfast.process_inbox')).toEqual([])
})

test('P-11 K-15 another language responds through holdfast.respond; what does not fit is audited and removed', async () => {
  const where = domain()
  const Collect = defineProcess(where, 'Collect', {
    state: tally,
    responses: told,
    async execute(ctx, state) {
      await ctx.wait('two', () => state.got.length === 2)
      return state.got
    },
  })
  const { id } = await bus.hf.start(Collect, {}, { key: 'FROM SQL' })
  const respond = (process: string, name: string, data: unknown, responseId = `r-${name}-${JSON.stringify(data)}`) =>
    bus.sql('select holdfast.respond($1, $2, $3, $4, $5::jsonb, $6)', [
      where,
      'Collect',
      process,
      name,
      JSON.stringify(data),
      { responseId },
    ])
  await respond(id, 'told', 1)
  await respond(id, 'told', 1)
  await respond('FROM SQL', 'told', 'not a number')
  await respond(id, 'nonsense', 1)
  await respond('FROM SQL', 'told', 2)
  await expect(respond(id, '@child', {})).rejects.toThrow(/does not begin with @/)
  await bus.runProcesses(Collect)
  expect((await bus.rests(id, 'COMPLETED')).result).toEqual([1, 2])
  await waitFor('the inbox is empty', async () => (await bus.sql('select 1 from holdfast.process_inbox')).length === 0)
  const refused = (await bus.hf.auditTrail({ id })).filter(({ event }) => event === 'RESPONSE_REFUSED')
  expect(refused.map(({ detail }) => (detail as { code: string }).code).toSorted()).toEqual([
    'HF_INVALID_DATA',
    'HF_UNKNOWN_RESPONSE',
  ])
})

test('P-09 a replay applies a response at the place where the first execution applied it', async () => {
  const paths: string[] = []
  const Path = defineProcess(domain(), 'Path', {
    state: tally,
    responses: told,
    async execute(ctx, state) {
      state.got.push(100)
      const before = state.got.length
      const called = await ctx.step('call', () => state.got.length)
      const after = state.got.length
      await ctx.wait('one', () => state.got.includes(1))
      const met = state.got.length
      await ctx.step('external', () => met)
      await ctx.wait('two', () => state.got.includes(2))
      paths.push([before, called, after, met, state.got.join()].join(' '))
      await ctx.sleep('replay once more', '1h')
      state.got.push(200)
    },
  })
  const { id } = await bus.hf.start(Path, {}, { immediate: false })
  // Both are there before it begins, and each becomes visible at its wait.
  await bus.hf.process(Path, id).respond('told', 1)
  await bus.hf.process(Path, id).respond('told', 2)
  await bus.runProcesses(Path)
  await bus.wakeUp(id)
  expect((await bus.rests(id, 'COMPLETED')).state).toEqual({ got: [100, 1, 2, 200] })
  expect(paths).toEqual(Array(2).fill('1 1 1 2 100,1,2'))
})

test('P-09 a response that was seen before an external call is seen before it by the replay too', async () => {
  const asked: string[] = []
  const bank = gate()
  const Pay = defineProcess(domain(), 'Pay', {
    state: tally,
    responses: told,
    async execute(ctx, state) {
      await ctx.wait('one', () => state.got.length > 0)
      const amount = state.got.reduce((sum, n) => sum + n, 0)
      await ctx.step('pay', async ({ attempt }) => {
        asked.push(`${amount} at ${attempt}`)
        await bank.passed
      })
      return [amount, state.got.length]
    },
  })
  const { id } = await bus.hf.start(Pay, {})
  await bus.hf.process(Pay, id).respond('told', 5)
  const first = await bus.runProcesses(Pay)
  await waitFor('it is paying', () => asked.length === 1)
  // Another response comes, and the worker dies in the middle of the call.
  await bus.hf.process(Pay, id).respond('told', 7)
  first.stopNow()
  await bus.endLease(id)
  await bus.runProcesses(Pay)
  await waitFor('it is paying again', () => asked.length === 2)
  bank.open()
  const { result, state } = await bus.rests(id, 'COMPLETED')
  expect(asked).toEqual(['5 at 1', '5 at 1'])
  expect([result, state]).toEqual([[5, 1], { got: [5, 7] }])
})

test('P-09 state.count += 1 in execute counts once, however often it is replayed', async () => {
  const Count = defineProcess(domain(), 'Count', {
    state: z.object({ count: z.number() }),
    async execute(ctx, state) {
      for (let turn = 0; turn < 4; turn += 1) {
        state.count += 1
        await ctx.sleep('turn', 1)
      }
    },
  })
  await bus.runProcesses(Count)
  const { id } = await bus.hf.start(Count, { count: 0 })
  expect((await bus.rests(id, 'COMPLETED')).state).toEqual({ count: 4 })
})

test('P-11 a response that comes while a long step runs beside a wait wakes the wait at once', async () => {
  const long = gate()
  let woken = false
  const Both = defineProcess(domain(), 'Both', {
    state: tally,
    responses: told,
    async execute(ctx, state) {
      const wait = async () => {
        await ctx.wait('one', () => state.got.length > 0)
        await ctx.step('after the wait', () => {
          woken = true
        })
      }
      await Promise.all([ctx.step('long', () => long.passed), wait()])
      return state.got
    },
  })
  await bus.runProcesses(Both)
  const { id } = await bus.hf.start(Both, {}, { immediate: false })
  await waitFor('the long step runs', async () => (await bus.process(id)).leased_by !== null)
  await bus.hf.process(Both, id).respond('told', 1)
  await waitFor('the wait went on', () => woken)
  expect(await bus.history(id)).not.toContain('STEP long COMPLETED')
  long.open()
  expect((await bus.rests(id, 'COMPLETED')).result).toEqual([1])
})

test('P-11 a response that arrives while the process suspends is not missed', async () => {
  const where = domain()
  const Told = defineProcess(where, 'Collect', { state: tally, responses: told, execute: async () => undefined })
  const Collect = defineProcess(where, 'Collect', {
    state: tally,
    responses: told,
    async execute(ctx, state) {
      await ctx.step('call', () => bus.hf.process(Told, ctx.id).respond('told', 1))
      await ctx.wait('one', () => state.got.length > 0)
      return state.got
    },
  })
  const { id, status } = await (await bus.hf.start(Collect, {})).get()
  expect(status).toBe('COMPLETED')
  expect((await bus.process(id)).result).toEqual([1])
})
