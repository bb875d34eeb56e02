import { randomUUID } from 'node:crypto'
import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { BusinessError, PermanentError, TransientError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'
import type { ProcessOf } from './reference.js'
import type { ProcessStatus } from './states.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'ticket 7' }
const processes = () => bus.hf.processes
const empty = z.object({})
const work = (domain: string) => bus.hf.run({ domains: [domain], poll: '20ms' })
const get = (process: ProcessOf<never>, id: string) => processes().get({ ...process }, id)
const until = (process: ProcessOf<never>, id: string, status: ProcessStatus) =>
  waitFor(`it is ${status}`, async () => (await get(process, id)).status === status)
const events = async (process: ProcessOf<never>, id: string) =>
  (await get(process, id)).timeline.flatMap(({ event }) => event ?? [])

/** A process whose step fails until it is told otherwise, and whose response corrects the state. */
function repairable(domain: string, options: { maxAttempts?: number } = {}) {
  const calls: string[] = []
  const failing = new Set<string>()
  const undone: string[] = []
  const Payment = defineProcess(domain, 'Payment', {
    state: z.object({ iban: z.string(), when: z.date().optional() }),
    responses: {
      corrected: {
        data: z.object({ iban: z.string().length(4) }),
        apply: (state, { iban }) => {
          state.iban = iban
        },
      },
    },
    async execute(ctx, state) {
      await ctx.step('reserve', {
        run: () => void calls.push('reserve'),
        compensate: () => void undone.push('reserve'),
      })
      return ctx.step('pay', {
        maxAttempts: options.maxAttempts ?? 1,
        retryDelay: '1ms',
        run: ({ attempt }) => {
          calls.push(`pay ${state.iban} ${attempt}`)
          if (failing.has(state.iban)) throw new TransientError(`no route to '${state.iban}'`, { code: 'NO_ROUTE' })
          return `paid ${state.iban}`
        },
      })
    },
  })
  bus.hf.register(Payment)
  return { Payment, calls, failing, undone }
}

test('P-16 retry goes on at the failed step with its attempts at nought, and is audited with who and why', async () => {
  const { Payment, calls, failing } = repairable('retry', { maxAttempts: 2 })
  failing.add('AAAA')
  const worker = await work('retry')
  const { id } = await bus.hf.start(Payment, { iban: 'AAAA' }, { key: 'PAY-1' })
  await until(Payment, id, 'WAITING_FOR_TSQ')
  expect(calls).toEqual(['reserve', 'pay AAAA 1', 'pay AAAA 2'])
  expect((await get(Payment, id)).error).toMatchObject({ code: 'RETRIES_EXHAUSTED' })
  await worker.stop()

  await processes().retry(Payment, 'PAY-1', by)
  expect(await get(Payment, id)).toMatchObject({ status: 'PENDING', error: null, waitingFor: null })
  expect(await processes().troubles.count({ domain: 'retry' })).toBe(0)
  await work('retry')
  await until(Payment, id, 'WAITING_FOR_TSQ')
  expect(calls.slice(3)).toEqual(['pay AAAA 1', 'pay AAAA 2'])

  failing.clear()
  await processes().retry(Payment, id, by)
  expect(await processes().result(Payment, id)).toBe('paid AAAA')
  expect(calls.slice(5)).toEqual(['pay AAAA 1'])
  const { timeline } = await get(Payment, id)
  expect(timeline.filter(({ event }) => event === 'TSQ_RETRY')).toEqual([
    expect.objectContaining({
      ...by,
      before: expect.objectContaining({ status: 'WAITING_FOR_TSQ', errorCode: 'RETRIES_EXHAUSTED' }),
      after: { status: 'PENDING' },
    }),
    expect.objectContaining(by),
  ])
})

test('P-16 a correction is a response: parsed, recorded in the same transaction, in the state from the retry on', async () => {
  const { Payment, calls, failing } = repairable('corrected')
  failing.add('AAAA')
  await work('corrected')
  const { id } = await bus.hf.start(Payment, { iban: 'AAAA', when: new Date(0) })
  expect((await get(Payment, id)).status).toBe('WAITING_FOR_TSQ')
  const wrong = { response: { name: 'corrected', data: { iban: 'TOO LONG' } } } as const
  await expect(processes().retry(Payment, id, by, wrong)).rejects.toMatchObject({ code: 'HF_INVALID_DATA' })
  const unknown = { response: { name: 'corected', data: { iban: 'BBBB' } } }
  await expect(processes().retry({ domain: 'corrected', type: 'Payment' }, id, by, unknown)).rejects.toMatchObject({
    code: 'HF_UNKNOWN_RESPONSE',
  })
  expect((await get(Payment, id)).status).toBe('WAITING_FOR_TSQ')

  await processes().retry(Payment, id, by, { response: { name: 'corrected', data: { iban: 'BBBB' } } })
  expect(await processes().result(Payment, id)).toBe('paid BBBB')
  expect(calls).toEqual(['reserve', 'pay AAAA 1', 'pay BBBB 1'])
  const { state, timeline } = await get(Payment, id)
  expect(state).toEqual({ iban: 'BBBB', when: new Date(0) })
  const told = timeline.map(({ type, event, name }) => event ?? `${type} ${name}`)
  expect(told.slice(-3)).toEqual(['ASYNC_RESPONSE corrected', 'TSQ_RETRY', 'STEP pay'])
})

test('P-16 a retry of a failed undoing runs only what failed, and goes on undoing', async () => {
  let broken = true
  const undone: string[] = []
  const Undo = defineProcess('undo-retry', 'Undo', {
    state: empty,
    async execute(ctx) {
      for (const name of ['a', 'b']) {
        await ctx.step(name, {
          run: () => name,
          compensate: () => {
            if (name === 'a' && broken) throw new Error('not now')
            undone.push(name)
          },
        })
      }
      throw new BusinessError('declined')
    },
  })
  bus.hf.register(Undo)
  await work('undo-retry')
  const { id } = await bus.hf.start(Undo, {}, { deadline: '1h' })
  await waitFor('it needs a person', async () => {
    await bus.moveClock(10_000)
    return (await get(Undo, id)).status === 'WAITING_FOR_TSQ'
  })
  broken = false
  await bus.moveClock(3_600_000)
  await processes().retry(Undo, id, by)
  await until(Undo, id, 'COMPENSATED')
  expect(undone).toEqual(['b', 'a'])
  expect(await events(Undo, id)).toEqual([
    'PROCESS_CREATED',
    'COMPENSATION_SUCCESS',
    'COMPENSATION_FAILED',
    'TSQ_RETRY',
    'COMPENSATION_SUCCESS',
  ])
})

test('P-15, P-16 a retry past the deadline is refused without a new one', async () => {
  const Slow = defineProcess('late-retry', 'Slow', {
    state: empty,
    responses: { go: { data: empty } },
    async execute(ctx) {
      await ctx.event('go', 'go', { timeout: '10d' })
      return 'gone'
    },
  })
  bus.hf.register(Slow)
  await work('late-retry')
  const { id } = await bus.hf.start(Slow, {}, { deadline: '1h' })
  await bus.moveClock(3_600_001)
  await until(Slow, id, 'WAITING_FOR_TSQ')
  expect((await get(Slow, id)).error?.code).toBe('DEADLINE_EXCEEDED')
  await expect(processes().retry(Slow, id, by)).rejects.toMatchObject({ code: 'HF_DEADLINE_EXCEEDED' })
  await expect(processes().retry(Slow, id, by, { deadline: new Date(0) })).rejects.toMatchObject({
    code: 'HF_DEADLINE_EXCEEDED',
  })
  expect((await get(Slow, id)).status).toBe('WAITING_FOR_TSQ')
  await processes().retry(Slow, id, by, { deadline: '2h' })
  await until(Slow, id, 'WAITING_FOR_ASYNC')
  await bus.hf.respond(Slow, id, 'go', {})
  expect(await processes().result(Slow, id)).toBe('gone')
  expect(await events(Slow, id)).toEqual(['PROCESS_CREATED', 'DEADLINE_EXCEEDED', 'TSQ_RETRY'])
})

test('P-16 cancel ends a process in troubleshooting, with or without undoing what it did', async () => {
  const { Payment, failing, undone } = repairable('cancel')
  failing.add('AAAA')
  const plain = await bus.hf.start(Payment, { iban: 'AAAA' })
  const careful = await bus.hf.start(Payment, { iban: 'AAAA' })
  await processes().cancel(Payment, plain.id, by, { compensate: false })
  expect(await processes().troubles.count({ domain: 'cancel' })).toBe(1)
  expect(await get(Payment, plain.id)).toMatchObject({ status: 'PENDING', cancelling: true, error: null })
  await expect(processes().retry(Payment, plain.id, by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
  await processes().cancel(Payment, careful.id, by, { compensate: true })
  await work('cancel')
  await until(Payment, plain.id, 'CANCELLED')
  await until(Payment, careful.id, 'CANCELLED')
  expect(undone).toEqual(['reserve'])
  expect(await events(Payment, careful.id)).toEqual(['PROCESS_CREATED', 'TSQ_CANCEL', 'COMPENSATION_SUCCESS'])
  await expect(processes().result(Payment, careful.id)).rejects.toMatchObject({
    code: 'HF_PROCESS_NOT_COMPLETED',
    details: { status: 'CANCELLED' },
  })
})

test('P-16 a process that waits is cancelled at once; the audit does not speak of troubleshooting', async () => {
  const Waits = defineProcess('cancel-waiting', 'Waits', {
    state: empty,
    execute: async (ctx) => void (await ctx.wait('never', () => false)),
  })
  bus.hf.register(Waits)
  await work('cancel-waiting')
  const { id, status } = await bus.hf.start(Waits, {})
  expect(status).toBe('WAITING_FOR_ASYNC')
  await processes().cancel(Waits, id, by, { compensate: false })
  await until(Waits, id, 'CANCELLED')
  expect(await events(Waits, id)).toEqual(['PROCESS_CREATED', 'CANCEL_REQUESTED'])
  await expect(processes().cancel(Waits, id, by, { compensate: false })).rejects.toMatchObject({
    code: 'HF_WRONG_STATUS',
    message: `process ${id} cannot be cancelled: it is CANCELLED`,
  })
})

test('P-16 a process that never pauses and never ends shows as long-running, and can be cancelled', async () => {
  let aborted = false
  const Hangs = defineProcess('hangs', 'Hangs', {
    state: empty,
    async execute(ctx) {
      ctx.signal.addEventListener('abort', () => {
        aborted = true
      })
      await new Promise(() => undefined)
    },
  })
  bus.hf.register(Hangs)
  const worker = await work('hangs')
  const { id } = await bus.hf.start(Hangs, {}, { deferred: true })
  await until(Hangs, id, 'EXECUTING')
  await bus.moveClock(5_000)
  const [found] = await processes().list({ domain: 'hangs', status: 'EXECUTING', longerThan: '4s' })
  expect(found).toMatchObject({ id, leasedBy: worker.name, executingSince: expect.any(Date) })
  expect(await processes().list({ domain: 'hangs', longerThan: '1h' })).toEqual([])
  await processes().cancel(Hangs, id, by, { compensate: false })
  await until(Hangs, id, 'CANCELLED')
  expect(aborted).toBe(true)
})

test('P-16 complete ends a process with state overrides and a result, and does all that an end does', async () => {
  const { Payment, failing } = repairable('complete')
  failing.add('AAAA')
  const batchId = await bus.hf.batches.open('complete')
  const [started] = await bus.hf.startMany(Payment, [{ state: { iban: 'AAAA', when: new Date(5) } }], { batchId })
  const id = started?.id ?? ''
  await bus.hf.batches.seal(batchId)
  await work('complete')
  await until(Payment, id, 'WAITING_FOR_TSQ')
  expect(await bus.hf.batches.get(batchId)).toMatchObject({ status: 'IN_PROGRESS', inTroubleshooting: 1, total: 1 })
  // Recorded while it is in troubleshooting, and never met: in the state all the same.
  await bus.hf.respond(Payment, id, 'corrected', { iban: 'CCCC' })
  await processes().complete(Payment, id, by, { state: { paidBy: 'hand', at: new Date(7) }, result: 'by hand' })
  expect(await processes().result(Payment, id)).toBe('by hand')
  const record = await get(Payment, id)
  expect(record).toMatchObject({ status: 'COMPLETED', error: null, dueAt: null, endedAt: expect.any(Date) })
  expect(record.state).toEqual({ iban: 'CCCC', when: new Date(5), paidBy: 'hand', at: new Date(7) })
  expect(record.timeline.at(-1)).toMatchObject({
    event: 'TSQ_COMPLETE_OVERRIDE',
    ...by,
    before: { status: 'WAITING_FOR_TSQ' },
    after: { status: 'COMPLETED', state: { paidBy: 'hand' }, result: 'by hand' },
  })
  await waitFor('the batch is closed', async () => (await bus.hf.batches.get(batchId)).status === 'COMPLETED')
  expect(await bus.hf.batches.get(batchId)).toMatchObject({ completed: 1, inTroubleshooting: 0 })
})

test('P-16 complete without anything leaves the state, and tells the parent', async () => {
  const Child = defineProcess('complete-child', 'Child', {
    state: z.object({ n: z.number() }),
    async execute(ctx): Promise<string> {
      await ctx.wait('never', () => false)
      return 'by itself'
    },
  })
  const Parent = defineProcess('complete-child', 'Parent', {
    state: empty,
    execute: (ctx) => ctx.child('child', Child, { n: 7 }),
  })
  bus.hf.register(Child)
  bus.hf.register(Parent)
  await work('complete-child')
  const parent = await bus.hf.start(Parent, {})
  const child = await waitFor('the child waits', async () => {
    const [found] = await processes().list({ parentId: parent.id, status: 'WAITING_FOR_ASYNC' })
    return found
  })
  await processes().complete(Child, child.id, by, { result: 'by hand' })
  expect(await processes().result(Parent, parent.id)).toBe('by hand')
  expect((await get(Child, child.id)).state).toEqual({ n: 7 })
})

test('P-16 complete is refused while somebody executes it, and not once that worker is dead', async () => {
  let entered = 0
  const Long = defineProcess('complete-leased', 'Long', {
    state: empty,
    async execute(ctx) {
      await ctx.step('long', {
        timeout: '1h',
        run: () => {
          entered += 1
          return new Promise(() => undefined)
        },
      })
    },
  })
  bus.hf.register(Long)
  const worker = await work('complete-leased')
  const { id } = await bus.hf.start(Long, {}, { deferred: true })
  await waitFor('it runs', () => entered === 1)
  await expect(processes().complete(Long, id, by)).rejects.toMatchObject({
    code: 'HF_WRONG_STATUS',
    details: { status: 'EXECUTING' },
  })
  worker.stopNow()
  await bus.moveClock(31_000)
  await processes().complete(Long, id, by)
  expect(await get(Long, id)).toMatchObject({ status: 'COMPLETED', leasedBy: null, result: null })
})

test('P-16 complete takes a response that comes at the same moment, and never loses it', async () => {
  const Count = defineProcess('complete-race', 'Count', {
    state: z.object({ sum: z.number() }),
    responses: {
      add: {
        data: z.number(),
        apply: (state, n) => {
          state.sum += n
        },
      },
    },
    execute: async (ctx) => void (await ctx.wait('never', () => false)),
  })
  bus.hf.register(Count)
  const { id } = await bus.hf.start(Count, { sum: 0 })
  await Promise.all([
    ...Array.from({ length: 20 }, () => bus.hf.respond(Count, id, 'add', 1)),
    processes().complete(Count, id, by, { state: { done: true } }),
  ])
  expect((await get(Count, id)).state).toEqual({ sum: 20, done: true })
})

test('P-16 resume makes the next attempt of a step due now', async () => {
  let calls = 0
  const Later = defineProcess('resume-retry', 'Later', {
    state: empty,
    async execute(ctx) {
      return ctx.step('flaky', {
        maxAttempts: 3,
        retryDelay: '1h',
        run: ({ attempt }) => {
          calls += 1
          if (attempt === 1) throw new TransientError('busy')
          return attempt
        },
      })
    },
  })
  bus.hf.register(Later)
  await work('resume-retry')
  const { id } = await bus.hf.start(Later, {})
  expect(await get(Later, id)).toMatchObject({ status: 'WAITING_FOR_RETRY', waitingFor: 'flaky' })
  await processes().resume(Later, id, by)
  expect(await processes().result(Later, id)).toBe(2)
  expect(calls).toBe(2)
  expect(await events(Later, id)).toEqual(['PROCESS_CREATED', 'OPERATOR_RESUME'])
})

test('P-16 resume makes a wait look again at something outside the state, and keeps its timeout', async () => {
  let open = false
  const Gate = defineProcess('resume-wait', 'Gate', {
    state: empty,
    execute: (ctx) => ctx.wait('gate', () => open, { timeout: '2h' }),
  })
  bus.hf.register(Gate)
  await work('resume-wait')
  const { id } = await bus.hf.start(Gate, {})
  const { waitTimeoutAt } = await get(Gate, id)
  await processes().resume(Gate, id, by)
  await waitFor('it looked and waits on', async () => {
    const { status, leasedBy, dueAt } = await get(Gate, id)
    return status === 'WAITING_FOR_ASYNC' && leasedBy === null && dueAt?.getTime() === waitTimeoutAt?.getTime()
  })
  open = true
  await processes().resume(Gate, id, by)
  expect(await processes().result(Gate, id)).toBe(true)
})

test('P-16 resume starts a process now that was to start later', async () => {
  const At = defineProcess('resume-start', 'At', { state: empty, execute: async (ctx) => ctx.now().getTime() })
  bus.hf.register(At)
  await work('resume-start')
  const startAt = new Date(Date.now() + 10 * 86_400_000)
  const { id } = await bus.hf.start(At, {}, { startAt })
  expect(await get(At, id)).toMatchObject({ status: 'PENDING', dueAt: startAt })
  await processes().resume(At, id, by)
  expect(await processes().result(At, id)).toBeLessThan(startAt.getTime())
})

test('P-16 resume makes the next attempt of an undoing due now', async () => {
  let broken = true
  const Undo = defineProcess('resume-undo', 'Undo', {
    state: empty,
    async execute(ctx) {
      await ctx.step('a', {
        run: () => 'a',
        compensate: () => {
          if (broken) throw new Error('not now')
        },
      })
      throw new BusinessError('declined')
    },
  })
  bus.hf.register(Undo)
  const { id } = await bus.hf.start(Undo, {})
  expect(await get(Undo, id)).toMatchObject({ status: 'COMPENSATING', nextRetryAt: expect.any(Date) })
  broken = false
  // The next attempt is a minute away: only the resume can make it due.
  await bus.moveClock(-60_000)
  await processes().resume(Undo, id, by)
  await work('resume-undo')
  await until(Undo, id, 'COMPENSATED')
  await bus.moveClock(60_000)
})

const Refused = defineProcess('refused', 'Refused', { state: empty, execute: async () => 'done' })
const Other = defineProcess('refused', 'Other', { state: empty, execute: async () => 'done' })

type Act = (id: string, process?: ProcessOf<never>, who?: typeof by) => Promise<unknown>
const acts: readonly (readonly [string, string, Act])[] = [
  ['retry', 'retried', (id, process = Refused, who = by) => processes().retry({ ...process }, id, who)],
  [
    'cancel',
    'cancelled',
    (id, process = Refused, who = by) => processes().cancel(process, id, who, { compensate: false }),
  ],
  ['complete', 'completed', (id, process = Refused, who = by) => processes().complete({ ...process }, id, who)],
  ['resume', 'resumed', (id, process = Refused, who = by) => processes().resume(process, id, who)],
]

test.each(acts)('P-16 %s is refused for one that has ended, is unknown, or of another type', async (_, did, act) => {
  const { id } = await bus.hf.start(Refused, {}, { key: randomUUID().slice(1) })
  await expect(act(id)).rejects.toMatchObject({
    code: 'HF_WRONG_STATUS',
    message: `process ${id} cannot be ${did}: it is COMPLETED`,
  })
  const unknown = randomUUID()
  await expect(act(unknown)).rejects.toMatchObject({ code: 'HF_UNKNOWN_PROCESS', details: { id: unknown } })
  await expect(act('NO-SUCH-KEY')).rejects.toMatchObject({ code: 'HF_UNKNOWN_PROCESS' })
  await expect(act(id, Other)).rejects.toMatchObject({
    code: 'HF_PROCESS_OF_OTHER_TYPE',
    details: { actual: 'refused/Refused' },
  })
  await expect(act('')).rejects.toMatchObject({ code: 'HF_INVALID_KEY' })
  await expect(act(id, { domain: 'refused', type: '' })).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  const nobody = { actor: ' ', reason: 'x' }
  await expect(act(id, Refused, nobody)).rejects.toMatchObject({ code: 'HF_INVALID_ACTOR' })
  expect(await events(Refused, id)).toEqual(['PROCESS_CREATED'])
})

test('P-16 retry and resume are refused in states where there is nothing to do', async () => {
  const { Payment, failing } = repairable('states')
  failing.add('AAAA')
  const { id: troubled } = await bus.hf.start(Payment, { iban: 'AAAA' })
  await expect(processes().resume(Payment, troubled, by)).rejects.toMatchObject({
    details: { status: 'WAITING_FOR_TSQ', operation: 'resumed' },
  })
  const { id: pending } = await bus.hf.start(Payment, { iban: 'BBBB' }, { deferred: true })
  await expect(processes().retry(Payment, pending, by)).rejects.toMatchObject({ details: { status: 'PENDING' } })
})

test('P-16 bad input of an operator is refused before anything happens', async () => {
  const { id } = await bus.hf.start(Refused, {}, { deferred: true })
  const wrong = [
    processes().cancel(Refused, id, by, {} as never),
    processes().cancel(Refused, id, by, { compensate: 'yes' } as never),
    processes().complete(Refused, id, by, { state: ['x'] } as never),
    processes().retryMany(Refused, { fingerprint: undefined } as never, by),
  ]
  for (const refused of wrong) await expect(refused).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  await expect(processes().retry(Refused, id, by, { dedline: '1h' } as never)).rejects.toMatchObject({
    code: 'HF_UNKNOWN_OPTION',
    message: expect.stringContaining('did you mean `deadline`'),
  })
  expect((await get(Refused, id)).status).toBe('PENDING')
})

test('P-16 many are retried, cancelled or completed at once, each with its own answer', async () => {
  const { Payment, failing } = repairable('bulk')
  for (const iban of ['AAAA', 'BBBB', 'CCCC']) failing.add(iban)
  const started = await bus.hf.startMany(Payment, [
    ...['AAAA', 'BBBB', 'CCCC'].map((iban) => ({ state: { iban }, key: `KEY ${iban}` })),
    { state: { iban: 'DDDD' } },
  ])
  const [a = '', b = '', c = '', done = ''] = started.map(({ id }) => id)
  await work('bulk')
  await waitFor('three failed', async () => (await processes().troubles.count({ domain: 'bulk' })) === 3)
  await until(Payment, done, 'COMPLETED')
  const [group] = await processes().troubles.groups({ domain: 'bulk' })
  expect(group).toMatchObject({ count: 3, type: 'Payment', code: 'RETRIES_EXHAUSTED' })
  failing.clear()
  const answers = await processes().retryMany(Payment, ['KEY AAAA', done, 'KEY ZZZZ'], by)
  expect(answers).toEqual([
    { process: 'KEY AAAA', outcome: 'done' },
    {
      process: done,
      outcome: 'refused',
      code: 'HF_WRONG_STATUS',
      message: `process ${done} cannot be retried: it is COMPLETED`,
    },
    { process: 'KEY ZZZZ', outcome: 'refused', code: 'HF_UNKNOWN_PROCESS', message: expect.any(String) },
  ])
  expect(await processes().result(Payment, a)).toBe('paid AAAA')
  expect(await processes().completeMany(Payment, [b], by, { result: 'by hand' })).toEqual([
    { process: b, outcome: 'done' },
  ])
  expect(await processes().result(Payment, b)).toBe('by hand')
  const left = { fingerprint: group?.fingerprint ?? '' }
  expect(await processes().cancelMany(Payment, left, by, { compensate: false })).toEqual([
    { process: c, outcome: 'done' },
  ])
  await until(Payment, c, 'CANCELLED')
  expect(await processes().retryMany(Payment, 'all', by)).toEqual([])
})

test('P-16, P-18 a process whose code no longer fits is cancelled without undoing', async () => {
  const domain = 'misfit-cancel'
  const First = defineProcess(domain, 'P', {
    state: empty,
    async execute(ctx) {
      await ctx.step('one', { run: () => 1 })
      await ctx.wait('never', () => false)
    },
  })
  const { id } = await bus.hf.start(First, {})
  const Changed = defineProcess(domain, 'P', {
    state: empty,
    mismatchGrace: '1ms',
    execute: async (ctx) => void (await ctx.step('two', { run: () => 2 })),
  })
  bus.hf.register(Changed)
  await work(domain)
  await processes().resume(Changed, id, by)
  await waitFor('it is found not to fit', async () => {
    await bus.moveClock(6_000)
    return (await get(Changed, id)).status === 'WAITING_FOR_TSQ'
  })
  expect((await get(Changed, id)).error?.code).toBe('NON_DETERMINISM')
  await processes().cancel(Changed, id, by, { compensate: false })
  await until(Changed, id, 'CANCELLED')
})

test('P-16 an error that says it is permanent is in the list of troubles with its state', async () => {
  const Bad = defineProcess('troubles', 'Bad', {
    state: z.object({ at: z.date() }),
    execute: async (ctx) => {
      await ctx.step('bad', {
        run: () => {
          throw new PermanentError('account 7 is closed', { code: 'CLOSED' })
        },
      })
    },
  })
  const { id } = await bus.hf.start(Bad, { at: new Date(1) }, { key: 'BAD-1' })
  const [found] = await processes().troubles.list({ domain: 'troubles', type: 'Bad' })
  expect(found).toMatchObject({
    id,
    key: 'BAD-1',
    domain: 'troubles',
    type: 'Bad',
    error: { kind: 'PERMANENT', code: 'PERMANENT_FAILURE', message: 'CLOSED: account 7 is closed' },
    state: { at: new Date(1) },
    batchId: null,
  })
  expect(await processes().troubles.list({ domain: 'nowhere' })).toEqual([])
  expect(await processes().troubles.count({ fingerprint: found?.fingerprint ?? '' })).toBe(1)
  await expect(processes().troubles.list({ limit: 0 })).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
})

test('P-12, P-16 of operators who act at once one wins, the others are told, and the end stays what it is', async () => {
  const { Payment, failing } = repairable('race')
  failing.add('AAAA')
  await work('race')
  const { id } = await bus.hf.start(Payment, { iban: 'AAAA' })
  const outcomes = await Promise.allSettled([
    ...Array.from({ length: 5 }, () => processes().complete(Payment, id, by)),
    ...Array.from({ length: 5 }, () => processes().cancel(Payment, id, by, { compensate: false })),
    ...Array.from({ length: 5 }, () => processes().retry(Payment, id, by)),
  ])
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'HF_WRONG_STATUS' })
  }
  const done = outcomes.slice(0, 5).filter(({ status }) => status === 'fulfilled').length
  expect(done).toBeLessThanOrEqual(1)
  const ended = await waitFor('it is over', async () => {
    // A retry that won leads back to troubleshooting: then nobody has ended it yet.
    const { status } = await get(Payment, id)
    if (status === 'WAITING_FOR_TSQ') await processes().complete(Payment, id, by)
    return status === 'COMPLETED' || status === 'CANCELLED' ? status : undefined
  })
  for (const act of [
    () => processes().complete(Payment, id, by),
    () => processes().cancel(Payment, id, by, { compensate: true }),
    () => processes().retry(Payment, id, by),
    () => processes().resume(Payment, id, by),
  ]) {
    await expect(act()).rejects.toMatchObject({ code: 'HF_WRONG_STATUS', details: { status: ended } })
  }
  await bus.hf.respond(Payment, id, 'corrected', { iban: 'ZZZZ' })
  expect((await get(Payment, id)).status).toBe(ended)
})

test('P-16 corrections and results are typed by the definition', async () => {
  const { Payment } = repairable('typed')
  const { id } = await bus.hf.start(Payment, { iban: 'AAAA' }, { deferred: true })
  const wrong = [
    // @ts-expect-error There is no such response.
    processes().retry(Payment, id, by, { response: { name: 'corected', data: { iban: 'BBBB' } } }),
    // @ts-expect-error Its data is something else.
    processes().retry(Payment, id, by, { response: { name: 'corrected', data: { iban: 5 } } }),
  ]
  for (const refused of wrong) await expect(refused).rejects.toThrow()
  // @ts-expect-error The process returns a text.
  await processes().complete(Payment, id, by, { result: 5 })
  await processes()
    .complete(Payment, id, by, { result: 'by hand' })
    .catch(() => undefined)
})
