import { numbered, openTestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../commands/define.js'
import { PermanentError, TransientError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'
import { defineManager } from './managers/define.js'
import { stepCommand } from './managers/step-command.js'
import type { Circumstances } from './queries/find-circumstances.js'
import type { ProcessRecord } from './queries/find-processes.js'
import { whyOf } from './why.js'

const bus = await openTestBus()
afterAll(() => bus.close())
const domain = numbered('why')
const by = { actor: 'ann', reason: 'the bank is closed.' }
const state = z.object({})

const now = new Date('2026-05-01T12:00:00Z')
const later = new Date('2026-05-01T13:00:00Z')
const resting = {
  domain: 'payments',
  type: 'Payment',
  version: 2,
  status: 'PENDING',
  error: null,
  waitingFor: null,
  waitTimeoutAt: null,
  nextRetryAt: null,
  dueAt: now,
  queuedAt: null,
  leasedBy: null,
  endedAt: null,
} as ProcessRecord
const usual: Circumstances = { now, pause: null, liveVersion: 2, call: null }
const call = { at: '2026-05-01T11:00:00+00:00', code: null, message: null, started: null }
const failure = { kind: 'PERMANENT', code: 'NO_ROUTE', message: 'no route.' }

test.each<[string, Partial<ProcessRecord>, Partial<Circumstances>, object]>([
  [
    'ended',
    { status: 'COMPENSATED', endedAt: now, error: failure },
    {},
    { text: 'It ended COMPENSATED at 2026-05-01T12:00:00.000Z with NO_ROUTE: no route.' },
  ],
  [
    'running',
    { status: 'EXECUTING', leasedBy: 'host:1', dueAt: later },
    {},
    { text: 'It is running on worker host:1, whose lease ends at 2026-05-01T13:00:00.000Z.', at: later },
  ],
  [
    'needsPerson',
    { status: 'WAITING_FOR_TSQ', waitingFor: 'pay', error: failure },
    {},
    { text: 'It failed for good at pay with NO_ROUTE: no route; retry, complete or cancel it.' },
  ],
  ['notDue', { dueAt: later }, {}, { text: 'It is to start at 2026-05-01T13:00:00.000Z.', at: later }],
  [
    'notDue',
    { status: 'WAITING_FOR_RETRY', waitingFor: 'pay', nextRetryAt: later },
    { call: { ...call, code: 'DOWN', message: 'down' } },
    { text: 'The step pay is tried again at 2026-05-01T13:00:00.000Z after DOWN: down.', at: later },
  ],
  [
    'rateLimited',
    { status: 'WAITING_FOR_RETRY', waitingFor: 'pay', nextRetryAt: later },
    { call: { ...call, code: 'HF_RATE_LIMITED', message: 'no slot' } },
    { text: 'The rate limit had no slot; pay is tried again at 2026-05-01T13:00:00.000Z.', at: later },
  ],
  [
    'waiting',
    { status: 'WAITING_FOR_ASYNC', waitingFor: 'approval', waitTimeoutAt: later, dueAt: later },
    { call },
    {
      text: 'It waits for approval since 2026-05-01T11:00:00.000Z, until 2026-05-01T13:00:00.000Z at the latest.',
      at: later,
    },
  ],
  [
    'queued',
    { queuedAt: now, dueAt: null },
    {},
    {
      text: 'It has waited since 2026-05-01T12:00:00.000Z for one of the executions that the concurrency of payments/Payment allows.',
    },
  ],
  ['queued', {}, {}, { text: 'It has been due since 2026-05-01T12:00:00.000Z and waits for a worker to claim it.' }],
  ['noWorker', {}, { liveVersion: null }, { text: expect.stringContaining('no live worker has payments/Payment') }],
  [
    'noWorker',
    {},
    { liveVersion: 1 },
    {
      text: 'It is due, and it is of version 2 of payments/Payment, and live workers have only version 1 or older: start one of version 2.',
    },
  ],
])('U-04 why says %s (%#)', (reason, process, circumstances, expected) => {
  expect(whyOf({ ...resting, ...process }, { ...usual, ...circumstances })).toEqual({ reason, ...expected })
})

test('U-04 why of a process: waiting for a response, paused by whom, needing a person, ended', async () => {
  const Pay = defineProcess(domain(), 'Pay', {
    state: z.object({ go: z.boolean().default(false) }),
    responses: {
      go: {
        data: z.null(),
        apply: (pay) => {
          pay.go = true
        },
      },
    },
    async execute(ctx, pay) {
      await ctx.wait('go', () => pay.go, { timeout: '2h' })
      await ctx.step('pay', () => {
        throw new PermanentError('no such account', { code: 'NO_ACCOUNT' })
      })
    },
  })
  const pay = await bus.hf.start(Pay, {})
  const waits = await pay.why()
  expect(waits).toMatchObject({ reason: 'waiting', text: expect.stringMatching(/^It waits for go since .*Z, until /) })
  expect(waits.at?.getTime()).toBeGreaterThan(Date.now() + 7_000_000)
  await bus.hf.pause({ domain: Pay.domain }, by)
  expect(await pay.why()).toMatchObject({
    reason: 'paused',
    text: expect.stringMatching(/was paused by ann at .*Z: the bank is closed\.$/),
  })
  await bus.hf.resume({ domain: Pay.domain }, by)
  await bus.runProcesses(Pay)
  await pay.respond('go', null)
  await bus.rests(pay.id, 'WAITING_FOR_TSQ')
  expect(await pay.why()).toMatchObject({ reason: 'needsPerson', text: expect.stringContaining('no such account') })
  await pay.complete(by)
  expect(await pay.why()).toMatchObject({ reason: 'ended', text: expect.stringContaining('It ended COMPLETED at ') })
})

test('U-04 why of a process that is tried again later, and of one whose child needs a person', async () => {
  const Down = defineProcess(domain(), 'Down', {
    state,
    execute: (ctx) =>
      ctx.step(
        'pay',
        () => {
          throw new TransientError('the bank is down', { code: 'DOWN' })
        },
        { retry: { maxAttempts: 2, delay: '1h' } },
      ),
  })
  const down = await bus.hf.start(Down, {})
  expect(await down.why()).toMatchObject({ reason: 'notDue', text: expect.stringContaining('DOWN: ') })

  const Child = defineProcess(domain(), 'Child', {
    state,
    execute: async () => {
      throw new PermanentError('no', { code: 'NO' })
    },
  })
  const Parent = defineProcess(Child.domain, 'Parent', { state, execute: (ctx) => ctx.child('leg', Child, {}) })
  await bus.runProcesses(Child)
  const parent = await bus.hf.start(Parent, {})
  const why = await waitFor('its child needs a person', async () => {
    const told = await parent.why()
    return told.text.includes('needs a person') ? told : undefined
  })
  expect(why).toMatchObject({ reason: 'waiting', text: expect.stringMatching(/^It waits for child .* of leg/) })
})

test('U-04 why of a manager says which command it waits for, also when that needs a person', async () => {
  const Ring = defineCommand(domain(), 'Ring', { data: z.object({}) })
  const Order = defineManager(Ring.domain, 'Order', {
    state,
    firstStep: () => 'ring',
    command: () => stepCommand(Ring, {}),
    onReply: (order) => order,
    nextStep: () => null,
  })
  const order = await bus.hf.start(Order, {})
  expect(await order.why()).toMatchObject({
    reason: 'waiting',
    text: expect.stringMatching(/^It waits for command .* of ring, which is PENDING,/),
  })
  await bus.work(Ring, () => {
    throw new PermanentError('no bell', { code: 'NO_BELL' })
  })
  const why = await waitFor('its command needs a person', async () => {
    const told = await order.why()
    return told.text.includes('needs a person') ? told : undefined
  })
  expect(why.text).toContain('NO_BELL')
})
