import { openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { PermanentError, TransientError } from '../kernel/failure/failure-errors.js'
import { defineCommand } from './define.js'
import type { CommandRecord } from './queries/find-commands.js'
import { type Circumstances, whyOf } from './why.js'

const now = new Date('2030-01-01T12:00:00Z')
const later = new Date('2030-01-01T12:05:00Z')
const before = new Date('2030-01-01T11:55:00Z')
const error = { kind: 'TRANSIENT', code: 'BUSY', message: 'the bank is busy.' }

const command = (over: Partial<CommandRecord>): CommandRecord => ({
  id: 'c1',
  key: null,
  domain: 'payments',
  type: 'Book',
  status: 'PENDING',
  attempts: 0,
  maxAttempts: null,
  correlationId: null,
  replyTo: null,
  batchId: null,
  createdAt: before,
  updatedAt: before,
  dueAt: before,
  paused: false,
  data: null,
  result: null,
  error: null,
  ...over,
})

const pause = { subject: 'domain:payments', pausedAt: before, actor: 'ann', reason: 'the bank is down' }

test.each<[string, Partial<CommandRecord>, Partial<Circumstances>, object]>([
  [
    'completed',
    { status: 'COMPLETED', dueAt: null },
    {},
    { reason: 'ended', text: 'It ended COMPLETED at 2030-01-01T11:55:00.000Z.' },
  ],
  [
    'failed',
    { status: 'FAILED', dueAt: null, error },
    {},
    { reason: 'ended', text: 'It ended FAILED at 2030-01-01T11:55:00.000Z with BUSY: the bank is busy.' },
  ],
  [
    'in troubleshooting',
    { status: 'IN_TROUBLESHOOTING_QUEUE', attempts: 3, dueAt: null, error },
    {},
    {
      reason: 'needsPerson',
      text: 'It failed for good with BUSY: the bank is busy; retry, complete or cancel it.',
    },
  ],
  [
    'running',
    { status: 'IN_PROGRESS', attempts: 2, dueAt: later },
    { receivedBy: 'host:1' },
    {
      reason: 'running',
      text: 'Attempt 2 is running on worker host:1, whose lease ends at 2030-01-01T12:05:00.000Z.',
      at: later,
    },
  ],
  [
    'paused, although it is not due yet',
    { dueAt: later },
    { pause },
    {
      reason: 'paused',
      text: 'The domain payments was paused by ann at 2030-01-01T11:55:00.000Z: the bank is down.',
    },
  ],
  [
    'delayed',
    { dueAt: later },
    {},
    {
      reason: 'notDue',
      text: 'Attempt 1 is due at 2030-01-01T12:05:00.000Z; a live worker has its handler.',
      at: later,
    },
  ],
  [
    'waiting for its next attempt',
    { dueAt: later, attempts: 1, error },
    { hasWorker: false },
    {
      reason: 'notDue',
      text:
        'Attempt 2 is due at 2030-01-01T12:05:00.000Z, after attempt 1 failed with BUSY: the bank is busy; no live worker has payments/Book: ' +
        'register its handler with hf.handle and start a worker with hf.run.',
      at: later,
    },
  ],
  [
    'due, and no worker has its handler',
    {},
    { hasWorker: false },
    {
      reason: 'noWorker',
      text:
        'Attempt 1 has been due since 2030-01-01T11:55:00.000Z; no live worker has payments/Book: register its handler with hf.handle and ' +
        'start a worker with hf.run.',
    },
  ],
  [
    'due',
    {},
    {},
    {
      reason: 'queued',
      text: 'Attempt 1 has been due since 2030-01-01T11:55:00.000Z; a live worker has its handler.',
    },
  ],
  [
    'without a queue',
    { dueAt: null },
    {},
    {
      reason: 'needsPerson',
      text: 'Its message is gone because the queue of the domain payments was dropped; cancel it and send it again.',
    },
  ],
])('U-04 why of a command that is %s', (_, over, circumstances, expected) => {
  const usual = { pause: undefined, hasWorker: true, receivedBy: null, now }
  expect(whyOf(command(over), { ...usual, ...circumstances })).toEqual(expected)
})

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'the bank is down' }

test('U-04 why says what happens to a command: no worker, paused, not due, running, queued, a person, the end', async () => {
  const Do = defineCommand('why', 'Do', { retry: { maxAttempts: 2, delay: '1h' } })
  const first = await bus.hf.send(Do, 'wait')
  expect(await first.why()).toMatchObject({ reason: 'noWorker', text: expect.stringContaining('why/Do') })
  await bus.hf.pause({ domain: 'why' }, by)
  expect(await first.why()).toMatchObject({ reason: 'paused', text: expect.stringMatching(/by ann.*the bank is down/) })

  let release = () => {}
  const end = new Promise<void>((resolve) => (release = resolve))
  await bus.work(
    Do,
    async (data) => {
      if (data === 'wait') return end
      if (data === 'again') throw new TransientError('busy', { code: 'BUSY' })
      throw new PermanentError('no such account', { code: 'NO_ACCOUNT' })
    },
    { concurrency: 1, name: 'the-worker' },
  )
  const delayed = await bus.hf.send(Do, 'wait', { delay: '1h' })
  await bus.hf.resume({ domain: 'why' }, by)
  const due = (await delayed.get()).dueAt
  expect(await delayed.why()).toEqual({ reason: 'notDue', text: expect.stringContaining('Attempt 1 is due'), at: due })

  const running = await waitFor('it runs', async () => {
    const why = await first.why()
    return why.reason === 'running' ? why : undefined
  })
  expect(running).toEqual({ reason: 'running', text: expect.stringContaining('the-worker'), at: expect.any(Date) })
  const next = await bus.hf.send(Do, 'again')
  expect(await next.why()).toMatchObject({ reason: 'queued' })
  release()
  await first.result()
  expect(await first.why()).toMatchObject({ reason: 'ended', text: expect.stringContaining('COMPLETED') })

  const retrying = await waitFor('it waits for its next attempt', async () => {
    const why = await next.why()
    return why.reason === 'notDue' ? why : undefined
  })
  expect(retrying.text).toContain('after attempt 1 failed with BUSY: busy')
  const failed = await bus.hf.send(Do, 'bad')
  const person = await waitFor('it needs a person', async () => {
    const why = await failed.why()
    return why.reason === 'needsPerson' ? why : undefined
  })
  expect(person.text).toContain('NO_ACCOUNT: no such account')
})
