import { gate, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { PermanentError, TransientError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'
import { StepFailed } from './step-failed.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus({ abortGrace: '30ms' })
})
afterAll(() => bus.close())

const anything = z.any()

test('P-02 a completed step returns its recorded result on replay and is never called again', async () => {
  const calls: string[] = []
  const seen: unknown[] = []
  const Pay = defineProcess('steps-replay', 'Pay', {
    state: anything,
    responses: { go: { data: z.null() } },
    async execute(ctx) {
      const booked = await ctx.step('book', ({ idempotencyKey, attempt }) => {
        calls.push(idempotencyKey)
        return { reference: `r${attempt}`, at: new Date(5), none: undefined, big: 12n, set: new Set([1]) }
      })
      seen.push(booked)
      await ctx.event('go', 'go')
      return booked.reference
    },
  })
  const { id, status } = await (await bus.hf.start(Pay, {})).get()
  expect(status).toBe('WAITING_FOR_ASYNC')
  await bus.runProcesses(Pay)
  await bus.hf.process(Pay, id).respond('go', null)
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('r1')
  expect(calls).toEqual([`${id}/book`])
  // Live and replayed values are the same, whatever the step returned.
  expect(seen).toHaveLength(2)
  expect(seen[0]).toStrictEqual({ reference: 'r1', at: new Date(5), big: 12n, set: new Set([1]) })
  expect(seen[1]).toStrictEqual(seen[0])
})

test.each<[string, unknown]>([
  ['undefined', undefined],
  ['null', null],
  ['a text', 'x'],
  ['a date', new Date(7)],
  ['a map', new Map([['a', { b: [1n] }]])],
  ['an empty object', {}],
  ['a nested undefined', [undefined, 1]],
])('P-02 a result passes through the codec on the first execution too: %s', async (name, value) => {
  const seen: unknown[] = []
  const domain = `steps-codec-${name.replaceAll(' ', '-')}`
  const Pay = defineProcess(domain, 'Pay', {
    state: anything,
    async execute(ctx) {
      seen.push(await ctx.step('s', () => value))
      seen.push(await ctx.sideEffect('e', () => value))
      await ctx.sleep('pause', '1h')
      return 'done'
    },
  })
  const { id } = await bus.hf.start(Pay, {})
  await bus.runProcesses(Pay)
  await bus.wakeUp(id)
  await bus.rests(id, 'COMPLETED')
  expect(seen).toStrictEqual([value, value, value, value])
  expect(seen[0]).not.toBe(typeof value === 'object' && value !== null ? value : Symbol('another'))
})

test('P-02 an instance of a class is refused with the name of the step, live and not only on replay', async () => {
  class Money {
    amount = 1
  }
  const Pay = defineProcess('steps-class', 'Pay', {
    state: anything,
    execute: async (ctx) => void (await ctx.step('price', () => new Money())),
  })
  const { id, status } = await (await bus.hf.start(Pay, {})).get()
  expect(status).toBe('WAITING_FOR_TSQ')
  const { error_code, error_message } = await bus.process(id)
  expect(error_code).toBe('PERMANENT_FAILURE')
  expect(error_message).toMatch(/HF_NOT_ENCODABLE: .*the result of price.*Money/)
})

test('P-02 a step past its time limit gets its signal, and is awaited no longer than the grace time', async () => {
  let signalled: unknown
  const Slow = defineProcess('steps-timeout', 'Slow', {
    state: anything,
    execute: async (ctx) =>
      void (await ctx.step(
        'call',
        ({ signal }) =>
          new Promise(() => {
            signal.addEventListener('abort', () => {
              signalled = signal.reason
            })
          }),
        { timeout: '20ms' },
      )),
  })
  const { id, status } = await (await bus.hf.start(Slow, {})).get()
  expect(status).toBe('WAITING_FOR_TSQ')
  expect(await bus.process(id)).toMatchObject({
    error_code: 'RETRIES_EXHAUSTED',
    error_message: expect.stringContaining('TIMEOUT'),
  })
  expect(signalled).toMatchObject({ code: 'TIMEOUT' })
})

test('P-02 code that ignores its signal changes nothing when it ends later', async () => {
  const bank = gate()
  const late = gate()
  const Slow = defineProcess('steps-ignorant', 'Slow', {
    state: anything,
    execute: async (ctx) =>
      ctx.step(
        'call',
        async ({ attempt }) => {
          if (attempt > 1) return 'second'
          await bank.passed
          late.open()
          return 'first'
        },
        { timeout: '20ms', retry: { maxAttempts: 2, delay: 1 } },
      ),
  })
  const { id } = await bus.hf.start(Slow, {})
  await bus.runProcesses(Slow)
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('second')
  bank.open()
  await late.passed
  expect(await bus.history(id)).toEqual(['STEP call WAITING_RETRY', 'STEP call COMPLETED'])
})

test('K-19 the next attempt does not begin beside a call whose time is up and that still runs', async () => {
  const other = await openTestBus()
  const bank = gate()
  let running = 0
  let beside = 0
  const Slow = defineProcess('steps-beside', 'Slow', {
    state: anything,
    execute: async (ctx) =>
      ctx.step(
        'call',
        async ({ attempt, signal }) => {
          beside = Math.max(beside, ++running)
          if (attempt === 1) {
            signal.addEventListener('abort', () => setTimeout(() => bank.open(), 50))
            await bank.passed
          }
          running -= 1
          return attempt
        },
        { timeout: '20ms', retry: { maxAttempts: 2, delay: 1 } },
      ),
  })
  await other.runProcesses(Slow)
  const { id } = await other.hf.start(Slow, {})
  expect((await other.rests(id, 'COMPLETED')).result).toBe(2)
  expect(beside).toBe(1)
  await other.close()
})

test('P-13 maxAttempts 3 is exactly three calls, each under the same key, and then troubleshooting', async () => {
  const keys: string[] = []
  const attempts: number[] = []
  const Pay = defineProcess('steps-three', 'Pay', {
    state: anything,
    execute: async (ctx) =>
      void (await ctx.step(
        'book',
        ({ idempotencyKey, attempt, maxAttempts }) => {
          keys.push(`${idempotencyKey} of ${maxAttempts}`)
          attempts.push(attempt)
          throw new TransientError('busy', { code: 'BUSY' })
        },
        { retry: { maxAttempts: 3, delay: 5 } },
      )),
  })
  const { id, status } = await (await bus.hf.start(Pay, {})).get()
  expect(status).toBe('WAITING_FOR_RETRY')
  expect((await bus.process(id)).next_retry_at).not.toBeNull()
  await bus.runProcesses(Pay)
  const { error_code, error_message } = await bus.rests(id, 'WAITING_FOR_TSQ')
  expect([error_code, error_message]).toEqual(['RETRIES_EXHAUSTED', 'BUSY: busy'])
  expect(keys).toEqual(Array(3).fill(`${id}/book of 3`))
  expect(attempts).toEqual([1, 2, 3])
  expect(await bus.history(id)).toEqual(['STEP book WAITING_RETRY', 'STEP book WAITING_RETRY', 'STEP book FAILED'])
  const [trouble] = await bus.sql('select error_code, type from holdfast.process_trouble where id = $1', [id])
  expect(trouble).toEqual({ error_code: 'BUSY', type: 'steps-three/Pay' })
})

test('P-13 the process is suspended between attempts until base × 2^(n−1)', async () => {
  const Pay = defineProcess('steps-delays', 'Pay', {
    state: anything,
    execute: async (ctx) =>
      void (await ctx.step(
        'book',
        () => {
          throw new TransientError('busy')
        },
        { retry: { maxAttempts: 9, delay: '1m' } },
      )),
  })
  const { id } = await bus.hf.start(Pay, {})
  await bus.runProcesses(Pay)
  for (let failed = 1; failed < 5; failed += 1) {
    await waitFor('the attempt is on record', async () => (await bus.history(id)).length === failed)
    await bus.rests(id, 'WAITING_FOR_RETRY')
    await bus.moveClock(300_000)
  }
  await bus.moveClock(0)
  const rows = await bus.sql<{ delay: number }>(
    `select round(extract(epoch from next_at - at))::int as delay
     from holdfast.process_history where process_id = $1 order by seq limit 4`,
    [id],
  )
  expect(rows.map(({ delay }) => delay)).toEqual([60, 120, 240, 300])
})

test('P-13 a permanent failure is not tried again', async () => {
  let calls = 0
  const Pay = defineProcess('steps-permanent', 'Pay', {
    state: anything,
    execute: async (ctx) =>
      void (await ctx.step(
        'book',
        () => {
          calls += 1
          throw new PermanentError('no such account', { code: 'NO_ACCOUNT' })
        },
        { retry: { maxAttempts: 5 } },
      )),
  })
  const { id } = await bus.hf.start(Pay, {})
  expect(await bus.process(id)).toMatchObject({
    status: 'WAITING_FOR_TSQ',
    error_code: 'PERMANENT_FAILURE',
    error_message: 'NO_ACCOUNT: no such account',
    due_at: null,
  })
  expect(calls).toBe(1)
})

test('P-01 P-13 classifyError tells the kind of errors that do not say it themselves', async () => {
  let calls = 0
  const Pay = defineProcess('steps-classify', 'Pay', {
    state: anything,
    classifyError: (error) => (error instanceof TypeError ? 'transient' : undefined),
    execute: async (ctx) =>
      ctx.step(
        'book',
        () => {
          calls += 1
          if (calls === 1) throw new TypeError('fetch failed')
          return 'booked'
        },
        { retry: { maxAttempts: 2, delay: 1 } },
      ),
  })
  await bus.runProcesses(Pay)
  const { id } = await bus.hf.start(Pay, {})
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('booked')
})

test("P-13 with onFailure 'throw' code can try an alternative, and a replay takes it too", async () => {
  const calls: string[] = []
  const caught: unknown[] = []
  const Pay = defineProcess('steps-throw', 'Pay', {
    state: anything,
    responses: { go: { data: z.null() } },
    async execute(ctx) {
      let way: string
      try {
        way = await ctx.step(
          'card',
          () => {
            calls.push('card')
            throw new PermanentError('expired', { code: 'EXPIRED', details: { month: 5 } })
          },
          { onFailure: 'throw' },
        )
      } catch (error) {
        if (!(error instanceof StepFailed)) throw error
        caught.push([error.step, error.code, error.message, error.details])
        way = await ctx.step('transfer', () => {
          calls.push('transfer')
          return 'transfer'
        })
      }
      await ctx.event('go', 'go')
      return way
    },
  })
  const { id } = await bus.hf.start(Pay, {})
  await bus.runProcesses(Pay)
  await bus.hf.process(Pay, id).respond('go', null)
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('transfer')
  expect(calls).toEqual(['card', 'transfer'])
  expect(caught).toEqual(Array(2).fill(['card', 'EXPIRED', 'card: expired', { month: 5 }]))
  expect((await bus.history(id)).slice(0, 2)).toEqual(['STEP card FAILED', 'STEP transfer COMPLETED'])
})

test("P-13 onFailure 'throw' comes after the last attempt, not before", async () => {
  let calls = 0
  const Pay = defineProcess('steps-throw-last', 'Pay', {
    state: anything,
    async execute(ctx) {
      const run = () => {
        calls += 1
        throw new TransientError('busy', { code: 'BUSY' })
      }
      return ctx
        .step('card', run, { onFailure: 'throw', retry: { maxAttempts: 2, delay: 1 } })
        .catch((error: unknown) => (error instanceof StepFailed ? error.code : 'not ours'))
    },
  })
  await bus.runProcesses(Pay)
  const { id } = await bus.hf.start(Pay, {})
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('BUSY')
  expect(calls).toBe(2)
})

test('P-04 a side effect is recorded once, and now, uuid and random come out the same on every replay', async () => {
  let effects = 0
  const drawn: unknown[] = []
  const Draw = defineProcess('steps-determinism', 'Draw', {
    state: anything,
    responses: { go: { data: z.null() } },
    async execute(ctx) {
      const before = [ctx.now(), ctx.uuid(), ctx.random()]
      const effect = await ctx.sideEffect('effect', () => {
        effects += 1
        return Math.random()
      })
      await ctx.event('go', 'go')
      drawn.push([before, effect, ctx.now() >= (before[0] as Date), ctx.uuid(), ctx.random()])
      await ctx.event('again', 'go')
      drawn.push([before, effect, ctx.now() >= (before[0] as Date), ctx.uuid(), ctx.random()])
    },
  })
  const { id } = await bus.hf.start(Draw, {})
  await bus.runProcesses(Draw)
  await bus.hf.process(Draw, id).respond('go', null)
  await waitFor('it waits again', () => drawn.length === 1)
  await bus.rests(id, 'WAITING_FOR_ASYNC')
  await bus.hf.process(Draw, id).respond('go', null)
  await bus.rests(id, 'COMPLETED')
  expect(effects).toBe(1)
  expect(drawn).toHaveLength(3)
  expect(drawn[1]).toEqual(drawn[0])
  expect(new Set((drawn as unknown[][]).map((row) => row[3])).size).toBe(2)
  const [before] = drawn[0] as [[Date, string, number]]
  expect(before[1]).toMatch(/^[0-9a-f-]{36}$/)
  expect(before[2]).toBeGreaterThanOrEqual(0)
  expect(before[2]).toBeLessThan(1)
})

test('P-04 ctx.now() is the same on a replay at every place', async () => {
  const times: number[][] = []
  const Clock = defineProcess('steps-now', 'Clock', {
    state: anything,
    async execute(ctx) {
      const seen = [ctx.now().getTime()]
      await ctx.step('a', () => new Promise((resolve) => setTimeout(resolve, 5)))
      seen.push(ctx.now().getTime())
      await ctx.sleep('s', 5)
      seen.push(ctx.now().getTime())
      await ctx.sleep('t', 5)
      times.push(seen)
    },
  })
  await bus.runProcesses(Clock)
  const { id } = await bus.hf.start(Clock, {})
  await bus.rests(id, 'COMPLETED')
  // The third execution replays what the second met live.
  expect(times).toHaveLength(1)
  const [row] = await bus.sql<{ start: string; ends: string[] }>(
    `select floor(extract(epoch from start_at) * 1000) as start, (
       select array_agg(floor(extract(epoch from at) * 1000) order by seq) from holdfast.process_history
       where process_id = $1 and status = 'COMPLETED' and name in ('a', 's')
     ) as ends
     from holdfast.process_detail where id = $1`,
    [id],
  )
  expect(times[0]).toEqual([Number(row?.start), ...(row?.ends ?? []).map(Number)])
})

test('P-05 a process sleeps until a moment or for a time, without a worker', async () => {
  const until = new Date(Date.now() + 3_600_000)
  const Nap = defineProcess('steps-sleep', 'Nap', {
    state: anything,
    async execute(ctx) {
      await ctx.sleep('long', until)
      await ctx.sleep('again', '2h')
      await ctx.sleep('past', new Date(0))
      return 'awake'
    },
  })
  const { id } = await bus.hf.start(Nap, {})
  expect((await bus.process(id)).due_at).toEqual(until)
  const worker = await bus.runProcesses(Nap)
  expect(worker.inFlightCount).toBe(0)
  await bus.moveClock(3_600_000)
  await waitFor('it sleeps again', async () => (await bus.process(id)).waiting_for === 'again')
  await bus.moveClock(3 * 3_600_000)
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('awake')
  await bus.moveClock(0)
})
