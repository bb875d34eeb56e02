import { gate, holdAt, numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const domain = numbered('cancel')
const anything = z.any()

/** Tells that it has come here, and waits to be let go. */
async function passing(here: { open(): void }, further: { passed: Promise<void> }): Promise<void> {
  here.open()
  await further.passed
}

test.each([
  ['PLAIN', []],
  ['COMPENSATE', ['booked']],
] as const)('P-16 a waiting process is cancelled: %s', async (mode, expected) => {
  const undone: unknown[] = []
  const Wait = defineProcess(domain(), 'Wait', {
    state: anything,
    async execute(ctx) {
      await ctx.step('book', () => 'booked', { compensate: (result) => undone.push(result) })
      await ctx.wait('never', () => false)
    },
  })
  await bus.runProcesses(Wait)
  const { id } = await bus.hf.start(Wait, {})
  expect(await bus.cancel(id, mode)).toBe('done')
  expect(await bus.rests(id, 'CANCELLED')).toMatchObject({ due_at: null, error_code: null })
  expect(undone).toEqual(expected)
  expect(await bus.cancel(id, mode)).toBe('CANCELLED')
})

test('P-16 a cancel reaches a running process: its signal fires, its step is recorded, its next call is not begun', async () => {
  const began = gate()
  const reasons: unknown[] = []
  let after = 0
  const undone: unknown[] = []
  const Slow = defineProcess(domain(), 'Slow', {
    state: anything,
    async execute(ctx) {
      const { signal: ofContext } = ctx
      await ctx.step(
        'slow',
        ({ signal }) =>
          new Promise<string>((resolve) => {
            began.open()
            signal.addEventListener('abort', () => {
              reasons.push(signal.reason, ofContext.reason)
              resolve('ended early')
            })
          }),
        { compensate: (result) => undone.push(result) },
      )
      await ctx.step('after', () => (after += 1))
    },
  })
  await bus.runProcesses(Slow)
  const { id } = await bus.hf.start(Slow, {}, { immediate: false })
  await began.passed
  expect(await bus.cancel(id, 'COMPENSATE')).toBe('done')
  await bus.rests(id, 'CANCELLED')
  expect(reasons).toEqual(Array(2).fill(expect.objectContaining({ code: 'HF_CANCELLED' })))
  expect([undone, after]).toEqual([['ended early'], 0])
  expect(await bus.history(id)).toEqual(['STEP slow COMPLETED', 'UNWIND CANCEL STARTED', 'COMPENSATION slow COMPLETED'])
})

test('P-16 a process that never pauses and never ends keeps its lease, and can be cancelled', async () => {
  const began = gate()
  const Forever = defineProcess(domain(), 'Forever', {
    state: anything,
    async execute(ctx) {
      await ctx.step('first', () => 'recorded')
      began.open()
      await new Promise(() => undefined)
    },
  })
  const worker = await bus.runProcesses(Forever, { lease: '3s' })
  const { id } = await bus.hf.start(Forever, {}, { immediate: false })
  await began.passed
  // What it has done is on record, though it never rests.
  await waitFor('the step is on record', async () => (await bus.history(id)).length === 1)
  const until = async () => (await bus.process(id)).due_at?.getTime() ?? 0
  const first = await until()
  await waitFor('its lease was kept alive', async () => (await until()) > first + 3_000)
  expect(worker.inFlightCount).toBe(1)
  expect(await bus.cancel(id)).toBe('done')
  await bus.rests(id, 'CANCELLED')
  await waitFor('the worker has let go of it', () => worker.inFlightCount === 0)
  expect((await bus.process(id)).lease_epoch).toBe(2)
})

test('K-02 a process that awaits something for ever is dropped when its lease is lost', async () => {
  const began = gate()
  const Forever = defineProcess(domain(), 'Forever', {
    state: anything,
    async execute() {
      began.open()
      await new Promise(() => undefined)
    },
  })
  const worker = await bus.runProcesses(Forever, { lease: '300ms' })
  const { id } = await bus.hf.start(Forever, {}, { immediate: false })
  await began.passed
  await bus.sql(
    `update holdfast.process set lease_epoch = 77, due_at = holdfast.now() + interval '1 day' where id = $1`,
    [id],
  )
  await waitFor('the worker has let go of it', () => worker.inFlightCount === 0)
  expect((await bus.process(id)).lease_epoch).toBe(77)
})

test('P-16 cancel against completion: a cancel that succeeded is never followed by a completion', async () => {
  const held = holdAt('before processes.write')
  const slow = await openTestBus({ connectionString: bus.connectionString, faults: held.faults })
  const ends: string[] = []
  const Quick = defineProcess(domain(), 'Quick', {
    state: anything,
    onCancelled: () => void ends.push('cancelled'),
    execute: async () => 'done',
  })
  const starting = slow.hf.start(Quick, {})
  // It has returned, and is about to write its end.
  await held.reached
  const [row] = await bus.sql<{ id: string }>('select id from holdfast.process where type = $1', [Quick.name])
  expect(await bus.cancel(row?.id ?? '')).toBe('done')
  held.release()
  const { id, status } = await (await starting).get()
  expect([status, ends]).toEqual(['CANCELLED', ['cancelled']])
  expect((await bus.process(id)).result).toBeNull()
  await slow.close()
})

test('P-16 one in troubleshooting is cancelled, with its steps undone where asked', async () => {
  const undone: unknown[] = []
  const Fail = defineProcess(domain(), 'Fail', {
    state: anything,
    async execute(ctx) {
      await ctx.step('book', () => 'booked', { compensate: (result) => undone.push(result) })
      await ctx.step('fail', () => {
        throw new PermanentError('no')
      })
    },
  })
  const { id } = await bus.hf.start(Fail, {})
  await bus.runProcesses(Fail)
  await bus.cancel(id, 'COMPENSATE')
  await bus.rests(id, 'CANCELLED')
  expect(undone).toEqual(['booked'])
})

test('P-16 cancelling without compensation ends an undoing too', async () => {
  const calls: string[] = []
  const began = gate()
  const go = gate()
  const Undo = defineProcess(domain(), 'Undo', {
    state: anything,
    async execute(ctx) {
      for (const name of ['a', 'b']) {
        const compensate = () => {
          calls.push(name)
          throw new PermanentError('cannot')
        }
        await ctx.step(name, () => name, { compensate })
      }
      await ctx.step('wait', () => passing(began, go))
      await ctx.wait('never', () => false)
    },
  })
  await bus.runProcesses(Undo)
  const { id } = await bus.hf.start(Undo, {}, { immediate: false })
  await began.passed
  await bus.cancel(id, 'COMPENSATE')
  go.open()
  await waitFor('the first compensation has failed', async () =>
    (await bus.history(id)).includes('COMPENSATION b WAITING_RETRY'),
  )
  await bus.cancel(id, 'PLAIN')
  await bus.rests(id, 'CANCELLED')
  expect(calls).not.toContain('a')
})

test('P-01 hooks are called once at the end, and their errors change nothing', async () => {
  const told: unknown[] = []
  const options = {
    state: z.object({ n: z.number() }),
    onCompleted: (state: { n: number }, end: object) => void told.push(['completed', { ...state }, end]),
    onFailed: (_state: unknown, end: object) => {
      told.push(['failed', end])
      throw new Error('broken hook')
    },
    onCancelled: (state: { n: number }) => {
      told.push('cancelled')
      state.n = 99
    },
  }
  const Done = defineProcess(domain(), 'Done', { ...options, execute: async (_ctx, state) => state.n + 1 })
  const Fail = defineProcess(domain(), 'Fail', {
    ...options,
    execute: async (ctx) => void (await ctx.wait('never', () => false, { timeout: 1, onTimeout: 'fail' })),
  })
  const Stop = defineProcess(domain(), 'Stop', {
    ...options,
    execute: async (ctx) => void (await ctx.wait('never', () => false)),
  })
  const done = await bus.hf.start(Done, { n: 1 }, { key: 'K' })
  await bus.runProcesses(Fail)
  const failed = await bus.hf.start(Fail, { n: 1 })
  await bus.rests(failed.id, 'FAILED')
  await bus.runProcesses(Stop)
  const stopped = await bus.hf.start(Stop, { n: 1 })
  await bus.cancel(stopped.id)
  // Not even a hook writes the state.
  expect((await bus.rests(stopped.id, 'CANCELLED')).state).toEqual({ n: 1 })
  expect(told).toEqual([
    ['completed', { n: 1 }, { id: done.id, key: 'K', result: 2 }],
    ['failed', { id: failed.id, key: null, error: { code: 'WAIT_TIMEOUT', message: expect.any(String) } }],
    'cancelled',
  ])
})
