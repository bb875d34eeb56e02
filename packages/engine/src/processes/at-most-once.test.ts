import { gate, holdAt, numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { BusinessError, TransientError } from '../kernel/failure/failure-errors.js'
import type { Inquiry, StepOptions } from './context.js'
import { defineProcess } from './define.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus({ abortGrace: '30ms' })
})
afterAll(() => bus.close())

const domain = numbered('at-most-once')

/** A payment whose first call never comes back, and what was asked of the bank. */
function payment({ work, ...options }: StepOptions<string> & { work?: () => string } = {}) {
  const calls: string[] = []
  const Pay = defineProcess(domain(), 'Pay', {
    state: z.any(),
    execute: async (ctx) =>
      ctx.step<string>(
        'pay',
        ({ idempotencyKey }) => {
          if (work) return work()
          calls.push(idempotencyKey)
          return calls.length === 1 ? new Promise(() => undefined) : 'paid the second time'
        },
        { atMostOnce: true, ...options },
      ),
  })
  return { Pay, calls }
}

/** Its worker dies in the middle of the call, and another one goes on. */
async function crashWhilePaying({ Pay, calls }: ReturnType<typeof payment>): Promise<string> {
  const first = await bus.runProcesses(Pay)
  const { id } = await bus.hf.start(Pay, {}, { immediate: false })
  await waitFor('it is paying', () => calls.length === 1)
  expect(await bus.history(id)).toEqual(['STEP pay STARTED'])
  first.stopNow()
  await bus.endLease(id)
  await bus.runProcesses(Pay)
  return id
}

const answers: [string, Inquiry<string>, string, unknown, number][] = [
  ['done', { done: 'found at the bank' }, 'COMPLETED', 'found at the bank', 1],
  ['not done', 'notDone', 'COMPLETED', 'paid the second time', 2],
  ['unknown', 'unknown', 'WAITING_FOR_TSQ', null, 1],
]

test.each(answers)('P-17 after a crash the bank is asked: %s', async (_, answer, status, result, calls) => {
  const asked: string[] = []
  const pay = payment({
    inquire: ({ idempotencyKey }) => {
      asked.push(idempotencyKey)
      return answer
    },
  })
  const id = await crashWhilePaying(pay)
  expect((await bus.rests(id, status)).result).toEqual(result)
  expect(pay.calls).toEqual(Array(calls).fill(`${id}/pay`))
  expect(asked).toEqual([`${id}/pay`])
})

test.each(answers)('P-17 after a timeout the bank is asked: %s', async (_, answer, status, result, calls) => {
  const pay = payment({ timeout: '20ms', retry: { maxAttempts: 2, delay: 1 }, inquire: () => answer })
  await bus.runProcesses(pay.Pay)
  const { id } = await bus.hf.start(pay.Pay, {})
  expect((await bus.rests(id, status)).result).toEqual(result)
  expect(pay.calls).toHaveLength(calls)
})

test('P-17 without `inquire` it waits for an operator, after a crash and after a timeout', async () => {
  const crashed = await crashWhilePaying(payment())
  expect((await bus.rests(crashed, 'WAITING_FOR_TSQ')).error_code).toBe('OUTCOME_UNKNOWN')
  const { Pay, calls } = payment({ timeout: '20ms', retry: { maxAttempts: 3 } })
  const { id, status } = await (await bus.hf.start(Pay, {})).get()
  expect([status, calls.length]).toEqual(['WAITING_FOR_TSQ', 1])
  expect((await bus.process(id)).error_code).toBe('OUTCOME_UNKNOWN')
})

const by = { actor: 'ann', reason: 'asked the bank' }

test('K-20 a retry of a call that cannot be inquired about is refused, and says what to do', async () => {
  const { Pay, calls } = payment({ timeout: '20ms' })
  const { id } = await bus.hf.start(Pay, {})
  await bus.runProcesses(Pay)
  await expect(bus.hf.process(Pay, id).retry(by)).rejects.toMatchObject({
    code: 'HF_CALL_OUTCOME_UNKNOWN',
    details: { id, step: 'pay' },
    next: expect.stringContaining('notDone: true'),
  })
  expect(await bus.hf.trouble.retry([id], by)).toMatchObject([{ outcome: 'refused', code: 'HF_CALL_OUTCOME_UNKNOWN' }])
  expect((await bus.process(id)).status).toBe('WAITING_FOR_TSQ')
  expect(calls).toHaveLength(1)
})

test('K-20 a person who found out says that it was done, with its result, and it is not called again', async () => {
  const { Pay, calls } = payment({ timeout: '20ms' })
  const { id } = await bus.hf.start(Pay, {})
  await bus.runProcesses(Pay)
  await bus.hf.process(Pay, id).complete(by, 'found in the books', { step: 'pay' })
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('found in the books')
  expect(calls).toHaveLength(1)
  expect(await bus.history(id)).toEqual(['STEP pay STARTED', 'STEP pay FAILED', 'RESOLVE pay COMPLETED'])
  const timeline = await bus.hf.process(Pay, id).history()
  expect(timeline.find(({ event }) => event === 'TSQ_RESOLVE')).toMatchObject({
    ...by,
    after: { step: 'pay', outcome: 'done', result: 'found in the books' },
  })
  await expect(bus.hf.process(Pay, id).retry(by, { notDone: true, step: 'pay' })).rejects.toMatchObject({
    code: 'HF_WRONG_STATUS',
  })
})

test('K-20 a person who found out says that it was not done, and it is called again', async () => {
  const { Pay, calls } = payment({ timeout: '20ms' })
  const { id } = await bus.hf.start(Pay, {})
  await expect(bus.hf.process(Pay, id).retry(by, { notDone: true, step: 'pay#2' })).rejects.toMatchObject({
    code: 'HF_NOTHING_TO_RESOLVE',
  })
  await bus.runProcesses(Pay)
  await bus.hf.process(Pay, id).retry(by, { notDone: true, step: 'pay' })
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('paid the second time')
  expect(calls).toHaveLength(2)
  expect(await bus.events(id)).toContain('TSQ_RESOLVE')
})

test('K-20 a person says that a call which `execute` did not wait for was not done: it is not made again', async () => {
  let calls = 0
  const Pay = defineProcess(domain(), 'Pay', {
    state: z.any(),
    execute: (ctx) =>
      Promise.race([
        ctx.step(
          'pay',
          () => {
            calls += 1
            return calls === 1 ? new Promise<string>(() => undefined) : 'paid'
          },
          { atMostOnce: true, timeout: '20ms' },
        ),
        ctx.step('quick', () => 'quick'),
      ]),
  })
  const { id, status } = await (await bus.hf.start(Pay, {})).get()
  expect(status).toBe('WAITING_FOR_TSQ')
  await bus.runProcesses(Pay)
  await bus.hf.process(Pay, id).retry(by, { notDone: true, step: 'pay' })
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('quick')
  expect(calls).toBe(1)
})

test('K-20 `onFailure: throw` hands no unknown outcome to user code: it is for a person', async () => {
  let calls = 0
  const Pay = defineProcess(domain(), 'Pay', {
    state: z.any(),
    execute: async (ctx) => {
      const paying = ctx.step(
        'pay',
        (): string => {
          calls += 1
          throw new Error('read ECONNRESET')
        },
        { atMostOnce: true, onFailure: 'throw' },
      )
      return paying.catch(() => 'another bank')
    },
  })
  const { id, status } = await (await bus.hf.start(Pay, {})).get()
  expect([status, calls]).toEqual(['WAITING_FOR_TSQ', 1])
  expect((await bus.process(id)).error_code).toBe('OUTCOME_UNKNOWN')
})

test("K-20 an operator's retry of a call with inquire asks again before it calls", async () => {
  const answers: Inquiry<string>[] = ['unknown', 'unknown', { done: 'it arrived after all' }]
  const { Pay, calls } = payment({ timeout: '20ms', inquire: () => answers.shift() ?? 'unknown' })
  const { id } = await bus.hf.start(Pay, {})
  await bus.runProcesses(Pay)
  await bus.retry(id)
  await waitFor('it was asked again', () => answers.length === 1)
  await bus.rests(id, 'WAITING_FOR_TSQ')
  await bus.retry(id)
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('it arrived after all')
  expect(calls).toHaveLength(1)
})

test.each([
  ['a connection that was reset', () => Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })],
  ['a bad gateway', () => new TransientError('502 Bad Gateway')],
  ['anything at all', () => 'a text'],
])('K-20 %s: the bank has paid, is asked, and is not called again', async (_, thrown) => {
  const bank = new Map<string, string>()
  const calls: string[] = []
  const Pay = defineProcess(domain(), 'Pay', {
    state: z.any(),
    execute: async (ctx) =>
      ctx.step(
        'pay',
        ({ idempotencyKey }): string => {
          calls.push(idempotencyKey)
          bank.set(idempotencyKey, `receipt ${calls.length}`)
          // oxlint-disable-next-line typescript/only-throw-error -- user code throws anything
          throw thrown()
        },
        {
          atMostOnce: true,
          retry: { maxAttempts: 3, delay: 1 },
          inquire: ({ idempotencyKey }) => {
            const receipt = bank.get(idempotencyKey)
            return receipt ? { done: receipt } : 'notDone'
          },
        },
      ),
  })
  const { id } = await bus.hf.start(Pay, {})
  expect(await bus.process(id)).toMatchObject({ status: 'COMPLETED', result: 'receipt 1' })
  expect(calls).toHaveLength(1)
})

test('K-20 a business error is a known outcome: no inquiry is made', async () => {
  let asked = 0
  const Pay = defineProcess(domain(), 'Pay', {
    state: z.any(),
    execute: async (ctx) =>
      ctx.step(
        'pay',
        (): string => {
          throw new BusinessError('declined', { code: 'DECLINED' })
        },
        {
          atMostOnce: true,
          inquire: () => {
            asked += 1
            return 'unknown'
          },
          compensate: () => {
            asked += 1
          },
        },
      ),
  })
  const { id, status } = await (await bus.hf.start(Pay, {})).get()
  expect([status, asked]).toEqual(['COMPENSATED', 0])
  expect((await bus.process(id)).error_code).toBe('DECLINED')
})

test('P-17 an inquiry that fails, hangs or returns an invalid value leaves the outcome unknown', async () => {
  const inquiries: StepOptions<string>['inquire'][] = [
    () => {
      throw new Error('the bank is closed')
    },
    () => new Promise(() => undefined),
    () => JSON.parse('{"nonsense": true}'),
  ]
  for (const inquire of inquiries) {
    const { Pay, calls } = payment({ timeout: '20ms', ...(inquire ? { inquire } : {}) })
    const { id, status } = await (await bus.hf.start(Pay, {})).get()
    expect([status, calls.length]).toEqual(['WAITING_FOR_TSQ', 1])
    expect((await bus.process(id)).error_code).toBe('OUTCOME_UNKNOWN')
  }
})

test('K-20 an error that does not say that nothing was done is repeated only after the bank said so', async () => {
  let calls = 0
  const { Pay } = payment({
    retry: { maxAttempts: 2, delay: 1 },
    inquire: () => 'notDone',
    work: () => {
      calls += 1
      if (calls === 1) throw new TransientError('busy: nothing was booked')
      return 'paid'
    },
  })
  await bus.runProcesses(Pay)
  const { id } = await bus.hf.start(Pay, {})
  expect((await bus.rests(id, 'COMPLETED')).result).toBe('paid')
  expect(await bus.history(id)).toEqual([
    'STEP pay STARTED',
    'STEP pay WAITING_RETRY',
    'STEP pay STARTED',
    'STEP pay COMPLETED',
  ])
})

test('P-17 a worker that was frozen past its lease does not make the call, though no other worker has claimed it yet', async () => {
  const stall = gate()
  let stalled = false
  let executing = false
  // The beginning is on record; then the process stands still, and with it its heartbeats and whatever it would claim. It
  // claims nothing from when it executes: a second claim, after a slow way to the first write, would fence that off.
  const faults = (point: string) => {
    if (point === 'before processes.extend') return stall.passed
    if (executing && point === 'before processes.claim') return stall.passed
    if (point !== 'after processes.write') return
    stalled = true
    return stall.passed
  }
  const frozen = await openTestBus({ connectionString: bus.connectionString, faults })
  let paid = 0
  const Pay = defineProcess(domain(), 'Pay', {
    state: z.any(),
    async execute(ctx) {
      executing = true
      const pay = () => {
        paid += 1
      }
      await ctx.step('pay', pay, { atMostOnce: true })
    },
  })
  const worker = await frozen.runProcesses(Pay, { lease: '2s' })
  const { id } = await bus.hf.start(Pay, {}, { immediate: false })
  await waitFor('it stands still', () => stalled)
  await waitFor('its lease is over', async () => {
    const text = 'select due_at < holdfast.now() as over from holdfast.process where id = $1'
    return (await bus.sql<{ over: boolean }>(text, [id]))[0]?.over
  })
  worker.stopNow()
  stall.open()
  await waitFor('it has been dropped', () => worker.inFlightCount === 0)
  expect([paid, await bus.history(id)]).toEqual([0, ['STEP pay STARTED']])
  await frozen.close()
})

test('K-20 a worker that stops between the record of a call and the call leaves no unknown outcome: no inquiry is needed', async () => {
  const held = holdAt('after processes.write')
  const stopping = await openTestBus({ connectionString: bus.connectionString, faults: held.faults })
  let paid = 0
  const Pay = defineProcess(domain(), 'Pay', {
    state: z.any(),
    execute: async (ctx) => ctx.step('pay', () => (paid += 1), { atMostOnce: true }),
  })
  const worker = await stopping.runProcesses(Pay)
  const { id } = await bus.hf.start(Pay, {}, { immediate: false })
  await held.reached
  const stopped = worker.stop()
  held.release()
  await stopped
  expect([paid, await bus.history(id)]).toEqual([0, ['STEP pay STARTED', 'STEP pay WAITING_RETRY']])
  await bus.runProcesses(Pay)
  expect((await bus.rests(id, 'COMPLETED')).result).toBe(1)
  await stopping.close()
})

test('P-17 a call whose beginning could not be recorded is not made', async () => {
  const held = holdAt('before processes.write')
  const slow = await openTestBus({ connectionString: bus.connectionString, faults: held.faults })
  let paid = 0
  const Pay = defineProcess(domain(), 'Pay', {
    state: z.any(),
    execute: async (ctx) => ctx.step('pay', () => (paid += 1), { atMostOnce: true }),
  })
  const starting = slow.hf.start(Pay, {})
  await held.reached
  await bus.sql('update holdfast.process set lease_epoch = lease_epoch + 1 where type = $1', [Pay.name])
  held.release()
  expect((await (await starting).get()).status).toBe('EXECUTING')
  expect(paid).toBe(0)
  await slow.close()
})

test('K-20 an `inquire` that would never be called is refused', async () => {
  const Pay = defineProcess(domain(), 'Pay', {
    state: z.any(),
    execute: (ctx) => ctx.step('pay', () => 'paid', { inquire: () => 'notDone' }),
  })
  const { id } = await bus.hf.start(Pay, {})
  expect(await bus.hf.process(Pay, id).get()).toMatchObject({
    status: 'WAITING_FOR_TSQ',
    error: { message: expect.stringContaining('`inquire` is never asked') },
  })
})
