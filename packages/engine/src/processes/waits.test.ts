import { numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineProcess } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const HOUR = 3_600_000
const counted = z.object({ count: z.number().default(0), log: z.array(z.string()).default([]) })
const added = {
  added: {
    data: z.number(),
    apply: (state: z.infer<typeof counted>, n: number) => {
      state.count += n
    },
  },
}
const domain = numbered('waits')

test('P-03 a wait suspends the process until its condition on the state holds', async () => {
  const Count = defineProcess(domain(), 'Count', {
    state: counted,
    responses: added,
    async execute(ctx, state) {
      const met = await ctx.wait('three', () => state.count >= 3)
      return [met, state.count]
    },
  })
  const { id, status } = await (await bus.hf.start(Count, {})).get()
  expect(status).toBe('WAITING_FOR_ASYNC')
  await bus.runProcesses(Count)
  await bus.hf.process(Count, id).respond('added', 1)
  await bus.rests(id, 'WAITING_FOR_ASYNC')
  await bus.hf.process(Count, id).respond('added', 2)
  expect((await bus.rests(id, 'COMPLETED')).result).toEqual([true, 3])
})

test('P-03 a condition that holds already does not suspend', async () => {
  const Count = defineProcess(domain(), 'Count', {
    state: counted,
    execute: async (ctx) => ctx.wait('nothing', () => true),
  })
  const { id, status } = await (await bus.hf.start(Count, {})).get()
  expect(status).toBe('COMPLETED')
  expect(await bus.history(id)).toEqual(['WAIT nothing COMPLETED'])
})

test('P-03 no condition misses a state between two responses', async () => {
  const Level = defineProcess(domain(), 'Level', {
    state: z.object({ level: z.string().default('none') }),
    responses: {
      set: {
        data: z.string(),
        apply: (state, level) => {
          state.level = level
        },
      },
    },
    async execute(ctx, state) {
      await ctx.wait('high', () => state.level === 'high')
      return state.level
    },
  })
  const { id } = await bus.hf.start(Level, {}, { immediate: false })
  for (const level of ['low', 'high', 'low']) await bus.hf.process(Level, id).respond('set', level)
  await bus.runProcesses(Level)
  const { result, state } = await bus.rests(id, 'COMPLETED')
  // What came after the condition was met is in the state that readers see, and was not in what the code saw.
  expect([result, state]).toEqual(['high', { level: 'low' }])
})

test('P-03 the timeout is fixed when the wait is first reached; replays do not restart it', async () => {
  let executions = 0
  const Count = defineProcess(domain(), 'Count', {
    state: counted,
    responses: added,
    async execute(ctx, state) {
      executions += 1
      await ctx.wait('ten', () => state.count >= 10, { timeout: '2h' })
    },
  })
  const { id } = await bus.hf.start(Count, {})
  const { wait_timeout_at, due_at } = await bus.process(id)
  expect(due_at).toEqual(wait_timeout_at)
  await bus.runProcesses(Count)
  for (const replay of [2, 3]) {
    await bus.moveClock((replay - 1) * 1_800_000)
    await bus.hf.process(Count, id).respond('added', 1)
    await waitFor('it was replayed', () => executions === replay)
    expect((await bus.rests(id, 'WAITING_FOR_ASYNC')).wait_timeout_at).toEqual(wait_timeout_at)
  }
  await bus.moveClock(2 * HOUR)
  expect((await bus.rests(id, 'WAITING_FOR_TSQ')).error_code).toBe('WAIT_TIMEOUT')
  await bus.moveClock(0)
})

test('P-03 timeout against response: what came before the worker evaluated the wait wins, and the other changes nothing', async () => {
  const define = () =>
    defineProcess(domain(), 'Count', {
      state: counted,
      responses: added,
      async execute(ctx, state) {
        const met = await ctx.wait('one', () => state.count > 0, { timeout: '1h', onTimeout: 'return' })
        return [met, state.count]
      },
    })
  const Answered = define()
  const Late = define()
  const answered = await bus.hf.start(Answered, {})
  const late = await bus.hf.start(Late, {})
  await bus.moveClock(2 * HOUR)
  await bus.hf.process(Answered, answered.id).respond('added', 5)
  await bus.runProcesses(Answered)
  await bus.runProcesses(Late)
  expect((await bus.rests(answered.id, 'COMPLETED')).result).toEqual([true, 5])
  expect((await bus.rests(late.id, 'COMPLETED')).result).toEqual([false, 0])
  await bus.hf.process(Late, late.id).respond('added', 5)
  expect((await bus.process(late.id)).result).toEqual([false, 0])
  expect(await bus.events(late.id)).toContain('LATE_ASYNC_RESPONSE')
  await bus.moveClock(0)
})

test('P-03 without a timeout of its own a wait has an hour, or what its definition says', async () => {
  const definitions = [undefined, '5m' as const].map((waitTimeout) =>
    defineProcess(domain(), 'Wait', {
      state: counted,
      ...(waitTimeout ? { waitTimeout } : {}),
      execute: async (ctx) => void (await ctx.wait('never', () => false)),
    }),
  )
  for (const [place, Wait] of definitions.entries()) {
    const { id } = await bus.hf.start(Wait, {})
    const [row] = await bus.sql<{ seconds: number }>(
      `select extract(epoch from next_at - at)::int as seconds from holdfast.process_history where process_id = $1`,
      [id],
    )
    expect(row?.seconds).toBe([3600, 300][place])
  }
})

test.each([
  ['tsq', 'WAITING_FOR_TSQ', []],
  ['compensate', 'COMPENSATED', ['undone']],
  ['fail', 'FAILED', []],
] as const)('P-03 onTimeout %s', async (onTimeout, status, expected) => {
  const undone: string[] = []
  const Wait = defineProcess(domain(), 'Wait', {
    state: counted,
    async execute(ctx) {
      await ctx.step('book', () => 'booked', { compensate: () => undone.push('undone') })
      await ctx.wait('never', () => false, { timeout: 1, onTimeout })
    },
  })
  await bus.runProcesses(Wait)
  const { id } = await bus.hf.start(Wait, {})
  const { error_code, error_message } = await bus.rests(id, status)
  expect([error_code, undone]).toEqual(['WAIT_TIMEOUT', expected])
  expect(error_message).toContain('never')
})

test("P-03 onTimeout 'return' returns false or undefined, and the process continues", async () => {
  const answers: unknown[] = []
  const Wait = defineProcess(domain(), 'Wait', {
    state: counted,
    responses: added,
    async execute(ctx) {
      const met = await ctx.wait('never', () => false, { timeout: 1, onTimeout: 'return' })
      const event = await ctx.event('nothing', 'added', { timeout: 1, onTimeout: 'return' })
      await ctx.sleep('replay it once more', 1)
      answers.push([met, event])
    },
  })
  await bus.runProcesses(Wait)
  const { id } = await bus.hf.start(Wait, {})
  await bus.rests(id, 'COMPLETED')
  expect(answers).toEqual([[false, undefined]])
})

test("P-03 an operator's retry starts a wait again", async () => {
  const Wait = defineProcess(domain(), 'Wait', {
    state: counted,
    responses: added,
    async execute(ctx, state) {
      await ctx.wait('one', () => state.count >= 1, { timeout: '1h' })
      return state.count
    },
  })
  const { id } = await bus.hf.start(Wait, {})
  await bus.moveClock(2 * HOUR)
  await bus.runProcesses(Wait)
  await bus.rests(id, 'WAITING_FOR_TSQ')
  await bus.retry(id)
  const { wait_timeout_at } = await bus.rests(id, 'WAITING_FOR_ASYNC')
  expect(wait_timeout_at?.getTime()).toBeGreaterThan(Date.now() + 2.5 * HOUR)
  await bus.hf.process(Wait, id).respond('added', 4)
  expect((await bus.rests(id, 'COMPLETED')).result).toBe(4)
  expect(await bus.history(id)).toEqual([
    'WAIT one STARTED',
    'WAIT one FAILED',
    'RETRY RETRY COMPLETED',
    'WAIT one STARTED',
    'WAIT one COMPLETED',
  ])
  await bus.moveClock(0)
})

test('P-03 events are consumed one by one, each once, in the order in which they came', async () => {
  const Loop = defineProcess(domain(), 'Loop', {
    state: counted,
    responses: { ...added, other: { data: z.string() } },
    async execute(ctx) {
      const taken: number[] = []
      while (taken.length < 4) taken.push(await ctx.event('next', 'added'))
      return [taken, await ctx.event('other', 'other')]
    },
  })
  const { id } = await bus.hf.start(Loop, {})
  await bus.hf.process(Loop, id).respond('other', 'early')
  for (const n of [1, 2]) await bus.hf.process(Loop, id).respond('added', n)
  await bus.runProcesses(Loop)
  await waitFor('two are taken', async () => (await bus.process(id)).waiting_for === 'next#3')
  for (const n of [3, 4]) await bus.hf.process(Loop, id).respond('added', n)
  expect((await bus.rests(id, 'COMPLETED')).result).toEqual([[1, 2, 3, 4], 'early'])
})

test('P-07 P-19 a suspended process keeps no promise in memory: execute is called again when it resumes', async () => {
  let executions = 0
  const Park = defineProcess(domain(), 'Park', {
    state: counted,
    responses: added,
    async execute(ctx) {
      executions += 1
      await ctx.event('one', 'added')
    },
  })
  const worker = await bus.runProcesses(Park)
  const { id } = await bus.hf.start(Park, {})
  expect(worker.inFlightCount).toBe(0)
  expect(await bus.process(id)).toMatchObject({ leased_by: null, waiting_for: 'one' })
  await bus.hf.process(Park, id).respond('added', 1)
  await bus.rests(id, 'COMPLETED')
  expect(executions).toBe(2)
})

test('P-07 try, catch and finally cannot break a suspension', async () => {
  const caught: unknown[] = []
  let finals = 0
  const Pause = defineProcess(domain(), 'Pause', {
    state: counted,
    responses: added,
    async execute(ctx) {
      try {
        await ctx.event('one', 'added')
      } catch (error) {
        caught.push(error)
        return 'caught'
      } finally {
        finals += 1
      }
      return 'met'
    },
  })
  const { id } = await bus.hf.start(Pause, {})
  // A pause is no end of the block.
  expect(finals).toBe(0)
  await bus.runProcesses(Pause)
  await bus.hf.process(Pause, id).respond('added', 1)
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('met')
  expect([caught, finals]).toEqual([[], 1])
})

test('P-07 calls on a released context never settle', async () => {
  let leaked: Promise<unknown> | undefined
  const Leak = defineProcess(domain(), 'Leak', {
    state: counted,
    async execute(ctx) {
      setTimeout(() => {
        leaked = ctx.step('late', () => 'must not run')
      }, 1)
      return 'done'
    },
  })
  const { id, status } = await (await bus.hf.start(Leak, {})).get()
  expect(status).toBe('COMPLETED')
  await waitFor('it was called', () => leaked !== undefined)
  const settled = leaked?.then(() => 'settled')
  expect(await Promise.race([settled, new Promise((resolve) => setImmediate(() => resolve('never')))])).toBe('never')
  expect(await bus.history(id)).toEqual([])
})
