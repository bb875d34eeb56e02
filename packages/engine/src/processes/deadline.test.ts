import { gate, numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { PermanentError, TransientError } from '../kernel/failure/failure-errors.js'
import type { ProcessContext } from './context.js'
import { defineProcess } from './define.js'
import type { DeadlineAction } from './states.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const domain = numbered('deadline')
const anything = z.any()

/** Books something that can be undone, and then does what the test says. */
function booking(deadlineAction: DeadlineAction | undefined, rest: (ctx: ProcessContext) => Promise<unknown>) {
  const undone: unknown[] = []
  const Book = defineProcess(domain(), 'Book', {
    state: anything,
    ...(deadlineAction ? { deadlineAction } : {}),
    async execute(ctx: ProcessContext) {
      await ctx.step('book', () => 'r1', { compensate: (result) => undone.push(result) })
      return rest(ctx)
    },
  })
  return { Book, undone }
}

/** Its deadline is over, and a worker comes. */
async function passDeadline(id: string): Promise<void> {
  await bus.sql('update holdfast.process set deadline_at = holdfast.now(), due_at = holdfast.now() where id = $1', [id])
}

const inWait = (ctx: ProcessContext) => ctx.wait('never', () => false, { timeout: '10h' })
const inSleep = (ctx: ProcessContext) => ctx.sleep('long', '10h')
const inRetry = (ctx: ProcessContext) =>
  ctx.step(
    'busy',
    () => {
      throw new TransientError('busy')
    },
    { retry: { maxAttempts: 5, delay: '10h' } },
  )

test.each([
  ['a wait', inWait],
  ['a sleep', inSleep],
  ['a retry', inRetry],
] as const)('P-15 a deadline cuts %s short', async (_, rest) => {
  const { Book, undone } = booking(undefined, rest)
  const { id } = await bus.hf.start(Book, {}, { deadline: '1h' })
  const [row] = await bus.sql<{ same: boolean }>(
    `select due_at = date_trunc('milliseconds', deadline_at) as same from holdfast.process where id = $1`,
    [id],
  )
  expect(row?.same).toBe(true)
  await passDeadline(id)
  await bus.runProcesses(Book)
  const { error_code, due_at } = await bus.rests(id, 'WAITING_FOR_TSQ')
  expect([error_code, due_at, undone]).toEqual(['DEADLINE_EXCEEDED', null, []])
})

test.each([
  ['compensate', 'COMPENSATED', ['r1']],
  ['fail', 'FAILED', []],
] as const)('P-15 deadlineAction %s takes effect in a running process', async (action, status, expected) => {
  for (const rest of [inWait, inRetry]) {
    const { Book, undone } = booking(action, rest)
    const { id } = await bus.hf.start(Book, {}, { deadline: new Date(Date.now() + 3_600_000) })
    await passDeadline(id)
    await bus.runProcesses(Book)
    expect((await bus.rests(id, status)).error_code).toBe('DEADLINE_EXCEEDED')
    expect(undone).toEqual(expected)
  }
})

test('P-15 a deadline in the past is found before the first step is called', async () => {
  let calls = 0
  const Late = defineProcess(domain(), 'Late', {
    state: anything,
    deadlineAction: 'fail',
    execute: async (ctx) => void (await ctx.step('a', () => (calls += 1))),
  })
  const { status } = await (await bus.hf.start(Late, {}, { deadline: new Date(0) })).get()
  expect([status, calls]).toEqual(['FAILED', 0])
})

test('P-15 a running step is never interrupted; the deadline is found at the next call', async () => {
  const bank = gate()
  const began = gate()
  let after = 0
  let aborted = false
  const Slow = defineProcess(domain(), 'Slow', {
    state: anything,
    deadlineAction: 'compensate',
    async execute(ctx) {
      const paid = await ctx.step(
        'pay',
        async ({ signal }) => {
          began.open()
          await bank.passed
          aborted = signal.aborted
          return 'paid'
        },
        { compensate: (result) => undone.push(result) },
      )
      await ctx.step('after', () => (after += 1))
      return paid
    },
  })
  const undone: unknown[] = []
  const starting = bus.hf.start(Slow, {}, { deadline: '3s' })
  await began.passed
  await waitFor('the deadline is over', async () => {
    const [row] = await bus.sql<{ over: boolean }>(
      `select deadline_at + interval '1 s' < holdfast.now() as over from holdfast.process where type = $1`,
      [Slow.name],
    )
    return row?.over
  })
  bank.open()
  const { id, status } = await (await starting).get()
  expect([status, undone, after, aborted]).toEqual(['COMPENSATED', ['paid'], 0, false])
  expect((await bus.history(id)).slice(0, 2)).toEqual(['STEP pay COMPLETED', 'UNWIND DEADLINE STARTED'])
})

test('P-15 a process that has done everything completes, though its deadline is over', async () => {
  const bank = gate()
  const began = gate()
  const Slow = defineProcess(domain(), 'Slow', {
    state: anything,
    execute: async (ctx) =>
      ctx.step('pay', async () => {
        began.open()
        await bank.passed
      }),
  })
  const starting = bus.hf.start(Slow, {}, { deadline: '3s' })
  await began.passed
  await waitFor('the deadline is over', async () => {
    const text = `select deadline_at + interval '1 s' < holdfast.now() as over from holdfast.process where type = $1`
    return (await bus.sql<{ over: boolean }>(text, [Slow.name]))[0]?.over
  })
  bank.open()
  expect((await (await starting).get()).status).toBe('COMPLETED')
})

test('P-01 P-15 the definition computes the deadline from the initial state; the start option takes precedence', async () => {
  const Due = defineProcess(domain(), 'Due', {
    state: z.object({ due: z.date() }),
    deadline: (state) => state.due,
    execute: async (ctx) => ctx.sleep('long', '20h'),
  })
  const deadlineOf = async (id: string) =>
    (await bus.sql<{ deadline_at: Date }>('select deadline_at from holdfast.process where id = $1', [id]))[0]
      ?.deadline_at
  const due = new Date(Date.now() + 3_600_000)
  const own = new Date(Date.now() + 7_200_000)
  const byState = await bus.hf.start(Due, { due })
  const byOption = await bus.hf.start(Due, { due }, { deadline: own })
  expect(await deadlineOf(byState.id)).toEqual(due)
  expect(await deadlineOf(byOption.id)).toEqual(own)
  expect((await bus.process(byState.id)).due_at).toEqual(due)
})

test('P-15 a time is counted from the start of the process, not from the call', async () => {
  const Due = defineProcess(domain(), 'Due', { state: anything, execute: async () => 'in time' })
  const startAt = new Date(Date.now() + 3_600_000)
  const { id } = await bus.hf.start(Due, {}, { startAt, deadline: '1h' })
  const [row] = await bus.sql<{ deadline_at: Date }>('select deadline_at from holdfast.process where id = $1', [id])
  expect(row?.deadline_at).toEqual(new Date(startAt.getTime() + 3_600_000))
})

test('P-15 a deadline has no effect in troubleshooting', async () => {
  const { Book } = booking('fail', (ctx) =>
    ctx.step('fails', () => {
      throw new PermanentError('no')
    }),
  )
  const { id } = await bus.hf.start(Book, {}, { deadline: '1h' })
  expect(await bus.process(id)).toMatchObject({
    status: 'WAITING_FOR_TSQ',
    due_at: null,
    error_code: 'PERMANENT_FAILURE',
  })
})

test('P-15 a deadline has no effect during compensation', async () => {
  let calls = 0
  const Undo = defineProcess(domain(), 'Undo', {
    state: anything,
    deadlineAction: 'compensate',
    async execute(ctx) {
      const compensate = () => {
        calls += 1
        if (calls === 1) throw new TransientError('busy')
      }
      await ctx.step('a', () => 1, { compensate })
      await ctx.wait('never', () => false)
    },
  })
  const { id } = await bus.hf.start(Undo, {}, { deadline: '1h' })
  await passDeadline(id)
  await bus.runProcesses(Undo)
  await bus.rests(id, 'COMPENSATED')
  expect(calls).toBe(2)
  expect((await bus.history(id)).filter((line) => line.startsWith('UNWIND'))).toHaveLength(1)
})
