import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { createCodec } from '../kernel/codec/codec.js'
import { BusinessError, TransientError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'
import type { TimelineRecord, TimelineResponse } from './queries/find-timeline.js'
import { type TimelineEntry, timelineOf } from './timeline.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const empty = z.object({})
const told = (timeline: readonly TimelineEntry[]) =>
  timeline.map(({ type, event, name, status }) => [event ?? type, name, status].filter(Boolean).join(' '))

test('P-22 the timeline shows calls, responses and events in order, with their details', async () => {
  let calls = 0
  const Payment = defineProcess('told', 'Payment', {
    state: z.object({ level: z.number() }),
    responses: {
      confirmed: {
        data: z.object({ level: z.number() }),
        apply: (state, { level }) => {
          state.level = level
        },
      },
      note: { data: z.string() },
    },
    async execute(ctx, state) {
      await ctx.sideEffect('pick', () => 'x')
      await ctx.step(
        'book',
        () => {
          calls += 1
          if (calls === 1) throw new TransientError('busy', { code: 'BUSY' })
          return { at: new Date(4) }
        },
        {
          retry: { maxAttempts: 2, delay: '1ms' },
          request: { amount: 5 },
        },
      )
      await ctx.transaction('store', async () => 'stored')
      await ctx.wait('level 2', () => state.level === 2, { timeout: '2h' })
      await ctx.event('note', 'note', { timeout: '1h' })
      await ctx.sleep('nap', '1ms')
    },
  })
  bus.hf.register(Payment)
  await bus.hf.run({ domains: ['told'], poll: '20ms' })
  const { id } = await bus.hf.start(Payment, { level: 0 })
  await waitFor('it waits', async () => (await bus.hf.process(Payment, id).get()).waitingFor === 'level 2')
  await bus.hf.process(Payment, id).respond('confirmed', { level: 1 })
  await bus.hf.process(Payment, id).respond('confirmed', { level: 2 })
  await bus.hf.process(Payment, id).respond('note', 'hello')
  await bus.hf.process(Payment, id).result()
  const timeline = await bus.hf.process(Payment, id).history()
  const calledOnly = timeline.filter(({ type }) => type !== 'ASYNC_RESPONSE')
  expect(told(calledOnly)).toEqual([
    'PROCESS_CREATED',
    'SIDE_EFFECT pick COMPLETED',
    'STEP book WAITING_RETRY',
    'STEP book COMPLETED',
    'STEP store COMPLETED',
    'WAIT level 2 STARTED',
    'WAIT level 2 COMPLETED',
    ...(timeline.some(({ name, status }) => name === 'note' && status === 'STARTED') ? ['WAIT note STARTED'] : []),
    'WAIT note COMPLETED',
    'WAIT nap STARTED',
    'WAIT nap COMPLETED',
  ])
  const entry = (name: string, status: string) => timeline.find((one) => one.name === name && one.status === status)
  expect(entry('book', 'WAITING_RETRY')).toMatchObject({
    attempt: 1,
    maxAttempts: 2,
    startedAt: expect.any(Date),
    nextRetryAt: expect.any(Date),
    error: { kind: 'TRANSIENT', code: 'BUSY', message: 'busy' },
  })
  expect(entry('book', 'COMPLETED')).toMatchObject({ attempt: 2, request: { amount: 5 }, result: { at: new Date(4) } })
  expect(entry('store', 'COMPLETED')).toMatchObject({ type: 'STEP', kind: 'TRANSACTION', result: 'stored' })
  expect(entry('nap', 'STARTED')).toMatchObject({ type: 'WAIT', kind: 'SLEEP' })
  const started = entry('level 2', 'STARTED')
  expect(started).toMatchObject({ timeout: 7_200_000, timeoutAt: expect.any(Date), lastResponseSeen: 0 })
  expect(started?.satisfied).toBeUndefined()
  expect(entry('level 2', 'COMPLETED')).toMatchObject({ satisfied: true, lastResponseSeen: 2 })
  const responses = timeline.filter(({ type }) => type === 'ASYNC_RESPONSE')
  expect(responses.map(({ number, name, result, met }) => [number, name, result, met])).toEqual([
    [1, 'confirmed', { level: 1 }, undefined],
    [2, 'confirmed', { level: 2 }, 'level 2'],
    [3, 'note', 'hello', 'note'],
  ])
  const place = (name: string, status: string) =>
    timeline.findIndex((one) => one.name === name && one.status === status)
  const last = timeline.findIndex(({ number }) => number === 2)
  expect(last).toBeLessThan(place('level 2', 'COMPLETED'))
})

test('P-22 children, timeouts, compensations and late responses are shown', async () => {
  const Child = defineProcess('told-more', 'Child', { state: empty, execute: async () => 7 })
  const Parent = defineProcess('told-more', 'Parent', {
    state: z.object({ late: z.number().optional() }),
    responses: {
      late: {
        data: z.number(),
        apply: (state, n) => {
          state.late = n
        },
      },
    },
    async execute(ctx) {
      await ctx.step('a', () => 1, { compensate: () => undefined })
      await ctx.child('child', Child, {})
      await ctx.wait('short', () => false, { timeout: '1ms', onTimeout: 'return' })
      throw new BusinessError('declined')
    },
  })
  bus.hf.register(Child)
  bus.hf.register(Parent)
  await bus.hf.run({ domains: ['told-more'], poll: '20ms' })
  const { id } = await bus.hf.start(Parent, {})
  await waitFor('it is undone', async () => (await bus.hf.process(Parent, id).get()).status === 'COMPENSATED')
  await bus.hf.process(Parent, id).respond('late', 5)
  const { state } = await bus.hf.process(Parent, id).get()
  const timeline = await bus.hf.process(Parent, id).history()
  expect(state).toEqual({ late: 5 })
  expect(told(timeline)).toEqual([
    'PROCESS_CREATED',
    'STEP a COMPLETED',
    'STEP child STARTED',
    'ASYNC_RESPONSE @child COMPLETED',
    'STEP child COMPLETED',
    'WAIT short STARTED',
    'WAIT_TIMEOUT short COMPLETED',
    'COMPENSATION_SUCCESS a COMPLETED',
    'ASYNC_RESPONSE late COMPLETED',
    'LATE_ASYNC_RESPONSE',
  ])
  const child = timeline.find(({ name, status }) => name === 'child' && status === 'STARTED')
  expect((await bus.hf.processes.list({ parent: id })).items.map((one) => one.id)).toEqual([child?.startedId])
  expect(timeline.find(({ name, status }) => name === 'child' && status === 'COMPLETED')).toMatchObject({ result: 7 })
  expect(timeline.find(({ event }) => event === 'WAIT_TIMEOUT')).toMatchObject({ type: 'WAIT', satisfied: false })
  expect(timeline.find(({ type }) => type === 'COMPENSATION')).toMatchObject({ attempt: 1, maxAttempts: 3 })
})

test('P-22 events of the history are not written to the audit trail as well', async () => {
  const Plain = defineProcess('sparing', 'Plain', {
    state: empty,
    execute: async (ctx) => ctx.step('a', () => 1),
  })
  const { id } = await bus.hf.start(Plain, {})
  expect(await bus.hf.auditTrail({ id })).toEqual([])
  expect(told(await bus.hf.process(Plain, id).history())).toEqual(['PROCESS_CREATED', 'STEP a COMPLETED'])
})

test('P-22 a deadline that compensates, fails or needs a person is one event', async () => {
  const ends = { compensate: 'COMPENSATED', fail: 'FAILED', tsq: 'WAITING_FOR_TSQ' } as const
  const ids: [keyof typeof ends, string, { domain: string; type: string }][] = []
  for (const deadlineAction of ['compensate', 'fail', 'tsq'] as const) {
    const Late = defineProcess('deadline-told', deadlineAction, {
      state: empty,
      deadlineAction,
      execute: async (ctx) => void (await ctx.wait('never', () => false, { timeout: '10d' })),
    })
    bus.hf.register(Late)
    ids.push([deadlineAction, (await bus.hf.start(Late, {}, { deadline: '1h' })).id, Late])
  }
  await bus.moveClock(3_600_001)
  await bus.hf.run({ domains: ['deadline-told'], poll: '20ms' })
  for (const [action, id, Late] of ids) {
    await waitFor('it is over', async () => (await bus.hf.process(Late, id).get()).status === ends[action])
    const timeline = await bus.hf.process(Late, id).history()
    expect(timeline.flatMap(({ event }) => event ?? [])).toEqual(['PROCESS_CREATED', 'DEADLINE_EXCEEDED'])
  }
})

test('P-21 a long timeline is cut to its latest records', async () => {
  const Long = defineProcess('long', 'Long', {
    state: empty,
    async execute(ctx) {
      for (let n = 0; n < 30; n++) await ctx.sideEffect('n', () => n)
    },
  })
  const { id } = await bus.hf.start(Long, {})
  expect(await bus.hf.process(Long, id).history()).toHaveLength(31)
  const timeline = await bus.hf.process(Long, id).history({ limit: 2 })
  expect(timeline.map(({ name }) => name)).toEqual([undefined, 'n#29', 'n#30'])
  expect(await bus.hf.process(Long, id).history({ limit: 0 })).toHaveLength(1)
})

const record = (seq: number, at: number, more: Partial<TimelineRecord>): TimelineRecord => ({
  generation: 1,
  seq,
  at: new Date(at),
  kind: 'WAIT',
  name: 'w',
  occurrence: 1,
  status: 'COMPLETED',
  attempt: null,
  seen: null,
  nextAt: null,
  result: null,
  notes: null,
  detail: null,
  ...more,
})
const response = (number: number, at: number): TimelineResponse => ({
  number,
  at: new Date(at),
  name: 'r',
  data: number,
  notes: null,
})

test("P-22 a response is shown before the record that has seen it, though a worker's clock is behind", () => {
  const timeline = timelineOf(
    new Date(0),
    {
      records: [
        record(1, 10, { status: 'STARTED' }),
        record(2, 12, { seen: 2 }),
        record(3, 30, { name: 'later', status: 'STARTED' }),
      ],
      responses: [response(1, 11), response(2, 13), response(3, 20), response(4, 40)],
      audit: [],
    },
    createCodec(),
  )
  expect(timeline.map(({ name, number, status }) => number ?? `${name} ${status}`).slice(1)).toEqual([
    'w STARTED',
    1,
    2,
    'w COMPLETED',
    3,
    'later STARTED',
    4,
  ])
})

test('P-22 a command that failed was replied to; one that timed out was not', () => {
  const error = { kind: 'BUSINESS', code: 'DECLINED', message: 'no', fingerprint: 'f' } as const
  const [, started, failed, late] = timelineOf(
    new Date(0),
    {
      records: [
        record(1, 1, { kind: 'COMMAND', name: 'ask', status: 'STARTED', detail: { startedId: 'c1' } }),
        record(2, 2, { kind: 'COMMAND', name: 'ask', status: 'FAILED', detail: { error, response: 1 } }),
        record(3, 3, {
          kind: 'COMMAND',
          name: 'ask',
          occurrence: 2,
          status: 'FAILED',
          detail: { error, timedOut: true },
        }),
      ],
      responses: [],
      audit: [],
    },
    createCodec(),
  )
  expect(started).toMatchObject({ type: 'COMMAND', name: 'ask', status: 'STARTED', startedId: 'c1' })
  expect(failed).toMatchObject({ satisfied: true, error: { kind: 'BUSINESS', code: 'DECLINED', message: 'no' } })
  expect(late).toMatchObject({ name: 'ask#2', satisfied: false, event: 'WAIT_TIMEOUT' })
})
