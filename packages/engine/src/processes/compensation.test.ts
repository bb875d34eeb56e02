import { gate, numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { BusinessError, PermanentError, TransientError } from '../kernel/failure/failure-errors.js'
import type { CompensationCall, ProcessContext } from './context.js'
import { defineProcess } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const domain = numbered('compensation')
const anything = z.any()
const refuse = () => {
  throw new BusinessError('declined', { code: 'DECLINED' })
}

test('P-14 a business failure undoes the steps in reverse order of their records, each with its own result', async () => {
  const undone: unknown[] = []
  const slow = gate()
  const Trip = defineProcess(domain(), 'Trip', {
    state: z.object({ reference: z.string().optional() }),
    async execute(ctx, state) {
      for (const turn of [1, 2, 3]) {
        const booked = await ctx.step('book', () => ({ reference: `r${turn}` }), {
          compensate: (result, { idempotencyKey }) => undone.push([result?.reference, idempotencyKey]),
        })
        // A compensation that closed over the state would undo the last reference three times.
        state.reference = booked.reference
        booked.reference = 'changed by user code'
      }
      await Promise.all([
        ctx.step('ends last', () => slow.passed, { compensate: () => undone.push('ends last') }),
        ctx.step('ends first', () => slow.open(), { compensate: () => undone.push('ends first') }),
      ])
      await ctx.step('no compensation', () => 1)
      await ctx.step('pay', refuse)
    },
  })
  const { id, status } = await (await bus.hf.start(Trip, {})).get()
  expect(status).toBe('COMPENSATED')
  expect(undone).toEqual([
    'ends last',
    'ends first',
    ['r3', `${id}/book#3/compensate`],
    ['r2', `${id}/book#2/compensate`],
    ['r1', `${id}/book/compensate`],
  ])
  expect(await bus.process(id)).toMatchObject({ error_code: 'DECLINED', error_message: 'declined', due_at: null })
  expect((await bus.history(id)).slice(-6)).toEqual([
    'UNWIND FAILURE STARTED',
    'COMPENSATION ends last COMPLETED',
    'COMPENSATION ends first COMPLETED',
    'COMPENSATION book#3 COMPLETED',
    'COMPENSATION book#2 COMPLETED',
    'COMPENSATION book COMPLETED',
  ])
})

test('P-14 an error of execute itself that is a business failure undoes too', async () => {
  const undone: unknown[] = []
  const Check = defineProcess(domain(), 'Check', {
    state: anything,
    classifyError: (error) => (error instanceof RangeError ? 'business' : undefined),
    async execute(ctx) {
      await ctx.step('reserve', () => 'r', { compensate: (result) => undone.push(result) })
      throw new RangeError('too much')
    },
  })
  const { id, status } = await (await bus.hf.start(Check, {})).get()
  expect([status, undone]).toEqual(['COMPENSATED', ['r']])
  expect((await bus.process(id)).error_message).toBe('too much')
})

test('P-14 an unknown error of execute needs a person, and undoes nothing', async () => {
  const undone: unknown[] = []
  const Bug = defineProcess(domain(), 'Bug', {
    state: anything,
    async execute(ctx) {
      await ctx.step('reserve', () => 'r', { compensate: (result) => undone.push(result) })
      throw new TypeError('undefined is not a function')
    },
  })
  const { id, status } = await (await bus.hf.start(Bug, {})).get()
  expect([status, undone]).toEqual(['WAITING_FOR_TSQ', []])
  expect((await bus.process(id)).error_code).toBe('PERMANENT_FAILURE')
})

test('K-19 compensateIf says which calls are undone: possible by default, completed, attempted', async () => {
  const undone: unknown[] = []
  const Pay = defineProcess(domain(), 'Pay', {
    state: anything,
    async execute(ctx) {
      const failures = { refused: new PermanentError('no such account'), unknown: new Error('socket hang up') }
      for (const compensateIf of [undefined, 'possible', 'completed', 'attempted'] as const) {
        for (const [outcome, error] of Object.entries(failures)) {
          const name = `${outcome} ${compensateIf ?? 'by default'}`
          await ctx
            .step(
              name,
              (): string => {
                throw error
              },
              {
                onFailure: 'throw',
                ...(compensateIf ? { compensateIf } : {}),
                compensate: (result: string | undefined, call: CompensationCall) =>
                  undone.push([name, result, call.outcome]),
              },
            )
            .catch(() => 'failed')
        }
      }
      await ctx.step('pay', refuse, { compensateIf: 'attempted', compensate: () => undone.push('pay') })
    },
  })
  const { status } = await (await bus.hf.start(Pay, {})).get()
  expect(status).toBe('COMPENSATED')
  expect(undone).toEqual([
    'pay',
    ['unknown attempted', undefined, 'unknown'],
    ['refused attempted', undefined, 'refused'],
    ['unknown possible', undefined, 'unknown'],
    ['unknown by default', undefined, 'unknown'],
  ])
})

/** One whose compensations can be made to fail. */
function stubborn(failing: Set<string>, calls: string[], extra: Partial<{ stuck: () => Promise<void> }> = {}) {
  return defineProcess(domain(), 'Stubborn', {
    state: anything,
    async execute(ctx: ProcessContext) {
      for (const name of ['a', 'b', 'c']) {
        await ctx.step(name, () => `result of ${name}`, {
          compensate: async (result) => {
            calls.push(`${name}: ${result}`)
            await extra.stuck?.()
            if (failing.has(name)) throw new PermanentError('cannot')
          },
        })
      }
      await ctx.step('pay', refuse)
    },
  })
}

test('P-14 a failing compensation is tried three times and does not stop the rest; a retry runs only the failed ones', async () => {
  const failing = new Set(['b'])
  const calls: string[] = []
  const Stubborn = stubborn(failing, calls)
  await bus.runProcesses(Stubborn)
  const { id } = await bus.hf.start(Stubborn, {})
  const trouble = await bus.rests(id, 'WAITING_FOR_TSQ')
  expect(trouble.error_code).toBe('COMPENSATION_FAILED')
  expect(trouble.error_message).toContain('`b`')
  expect(calls).toEqual(['c: result of c', ...Array(3).fill('b: result of b'), 'a: result of a'])
  expect((await bus.history(id)).slice(-5)).toEqual([
    'COMPENSATION c COMPLETED',
    'COMPENSATION b WAITING_RETRY',
    'COMPENSATION b WAITING_RETRY',
    'COMPENSATION b FAILED',
    'COMPENSATION a COMPLETED',
  ])
  failing.clear()
  calls.length = 0
  await bus.retry(id)
  await bus.rests(id, 'COMPENSATED')
  expect(calls).toEqual(['b: result of b'])
  expect((await bus.history(id)).filter((line) => line.startsWith('STEP'))).toHaveLength(4)
}, 40_000)

test('P-14 a compensation continues where it stopped after a crash', async () => {
  const calls: string[] = []
  const hang = gate()
  const Stubborn = stubborn(new Set(), calls, { stuck: async () => (calls.length === 2 ? hang.passed : undefined) })
  const first = await bus.runProcesses(Stubborn)
  const { id } = await bus.hf.start(Stubborn, {}, { immediate: false })
  await waitFor('the second compensation runs', () => calls.length === 2)
  first.stopNow()
  await bus.endLease(id)
  await bus.runProcesses(Stubborn)
  await bus.rests(id, 'COMPENSATED')
  // The one that was cut off is called again, under the same key; what was recorded is not.
  expect(calls).toEqual(['c: result of c', 'b: result of b', 'b: result of b', 'a: result of a'])
  hang.open()
})

test('P-14 a compensation continues on another worker when its worker stops', async () => {
  const calls: string[] = []
  const running = gate()
  const Stubborn = stubborn(new Set(), calls, { stuck: () => running.passed })
  const first = await bus.runProcesses(Stubborn)
  const { id } = await bus.hf.start(Stubborn, {}, { immediate: false })
  await waitFor('the first compensation runs', () => calls.length === 1)
  const stopping = first.stop()
  running.open()
  expect(await stopping).toEqual({ abandoned: 0 })
  expect(calls).toHaveLength(1)
  expect(await bus.process(id)).toMatchObject({ status: 'COMPENSATING', leased_by: null })
  await bus.runProcesses(Stubborn)
  await bus.rests(id, 'COMPENSATED')
  expect(calls).toHaveLength(3)
})

test('P-14 a response during a compensation does not change it', async () => {
  const where = domain()
  const state = z.object({ told: z.number().default(0) })
  const responses = {
    told: {
      data: z.number(),
      apply: (own: { told: number }, n: number) => {
        own.told = n
      },
    },
  }
  const Told = defineProcess(where, 'Undo', { state, responses, execute: async () => undefined })
  const Undo = defineProcess(where, 'Undo', {
    state,
    responses,
    async execute(ctx) {
      await ctx.step('a', () => 1, { compensate: () => bus.hf.process(Told, ctx.id).respond('told', 5) })
      await ctx.step('pay', refuse)
    },
  })
  const { id, status } = await (await bus.hf.start(Undo, {})).get()
  expect(status).toBe('COMPENSATED')
  expect((await bus.process(id)).state).toEqual({ told: 5 })
  expect((await bus.history(id)).filter((line) => line.startsWith('COMPENSATION'))).toHaveLength(1)
})

test('P-14 a transient failure of a compensation is tried again after a time', async () => {
  let calls = 0
  const Undo = defineProcess(domain(), 'Undo', {
    state: anything,
    async execute(ctx) {
      const compensate = () => {
        calls += 1
        if (calls === 1) throw new TransientError('busy')
      }
      await ctx.step('a', () => 1, { compensate })
      await ctx.step('pay', refuse)
    },
  })
  const { id, status } = await (await bus.hf.start(Undo, {})).get()
  expect(status).toBe('COMPENSATING')
  expect((await bus.process(id)).next_retry_at).not.toBeNull()
  await bus.runProcesses(Undo)
  await bus.rests(id, 'COMPENSATED')
  expect(calls).toBe(2)
})

test('P-14 a transactional step and a step after it are undone alike', async () => {
  const undone: unknown[] = []
  const Mixed = defineProcess(domain(), 'Mixed', {
    state: anything,
    async execute(ctx) {
      await ctx.transaction('tx', async (tx) => (await tx.query('select 7 as n')).rows, {
        compensate: (rows) => undone.push(rows),
      })
      await ctx.step('pay', refuse)
    },
  })
  expect((await (await bus.hf.start(Mixed, {})).get()).status).toBe('COMPENSATED')
  expect(undone).toEqual([[{ n: 7 }]])
})

test('K-19 a compensation whose time is up is waited for: nothing else is undone beside it', async () => {
  const seen: string[] = []
  const Pay = defineProcess(domain(), 'Pay', {
    state: anything,
    async execute(ctx) {
      await ctx.step('first', () => 1, { compensate: () => seen.push('undo first') })
      await ctx.step('last', () => 2, {
        compensateRetry: { maxAttempts: 1 },
        compensateTimeout: '20ms',
        // Told to stop, it needs a while for what it has begun: long enough for another to begin.
        compensate: async (_, { signal }) => {
          const told = gate()
          signal.addEventListener('abort', () => told.open())
          await told.passed
          await vi.waitUntil(() => seen.length > 0, { timeout: 1_000 }).catch(() => undefined)
          seen.push('last has ended')
        },
      })
      refuse()
    },
  })
  const { status } = await (await bus.hf.start(Pay, {})).get()
  expect(status).toBe('WAITING_FOR_TSQ')
  expect(seen).toEqual(['last has ended', 'undo first'])
})
