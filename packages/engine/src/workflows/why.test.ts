import { gate, numbered, observeWorkflows, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { BusinessError } from '../kernel/failure/failure-errors.js'
import { defineWorkflow } from './define.js'
import { type ActiveStep, type WhyInput, whyOf } from './why.js'

const at = new Date('2026-01-01T10:00:00Z')
const queued: ActiveStep = {
  step: 'pay',
  handler: 'Pay',
  compensates: false,
  attempts: 0,
  since: at,
  dueAt: at,
  isLater: false,
  leasedBy: null,
  isPaused: false,
  hasWorker: true,
}
const running: WhyInput = { status: 'RUNNING', endedAt: null, error: null, active: [], failed: [] }
const failed = { step: 'pay', kind: 'step', code: 'NO_ACCOUNT', message: 'no such account' } as const

describe('U-04 why() of a workflow', () => {
  it.each<[string, WhyInput, string, string]>([
    [
      'has completed',
      { ...running, status: 'COMPLETED', endedAt: at },
      'ended',
      'It ended COMPLETED at 2026-01-01T10:00:00.000Z.',
    ],
    [
      'has failed',
      { ...running, status: 'FAILED', endedAt: at, error: failed },
      'ended',
      'It ended FAILED at 2026-01-01T10:00:00.000Z: step `pay` failed with NO_ACCOUNT: no such account.',
    ],
    [
      'has a step that failed for good',
      { ...running, status: 'DLQ', failed: [failed] },
      'needsPerson',
      'Step `pay` failed for good with NO_ACCOUNT: no such account. Retry, complete or cancel it.',
    ],
    [
      'has ended, and a compensation failed for good',
      { ...running, status: 'FAILED', endedAt: at, failed: [{ ...failed, kind: 'compensation' }] },
      'needsPerson',
      'The compensation of step `pay` failed for good with NO_ACCOUNT: no such account. Retry, complete or cancel it.',
    ],
    [
      'has a step that runs',
      { ...running, active: [{ ...queued, leasedBy: 'host:1:abc', isLater: true }] },
      'running',
      'Step `pay` runs on worker host:1:abc; its lease ends at 2026-01-01T10:00:00.000Z unless the worker extends it.',
    ],
    [
      'is paused',
      { ...running, active: [{ ...queued, isPaused: true, dueAt: null }] },
      'paused',
      'Step `pay` is paused by an operator until `resume`; `hf.pauses()` says by whom and why.',
    ],
    [
      'waits for a handler that no worker has',
      { ...running, active: [{ ...queued, hasWorker: false }] },
      'noWorker',
      'Step `pay` waits: no live worker has the handler Pay: register the handler with hf.handle and start a worker with hf.run.',
    ],
    [
      'waits for its start, and no worker runs workflows',
      { ...running, status: 'PENDING', active: [{ ...queued, step: null, handler: '_root_', hasWorker: false }] },
      'noWorker',
      'The start of the instance waits: no live worker runs workflows: start one with hf.run.',
    ],
    [
      'begins later',
      { ...running, status: 'PENDING', active: [{ ...queued, step: null, handler: '_root_', isLater: true }] },
      'notDue',
      'The start of the instance begins at 2026-01-01T10:00:00.000Z.',
    ],
    [
      'waits for its next attempt',
      { ...running, active: [{ ...queued, attempts: 2, isLater: true }] },
      'notDue',
      'Step `pay` is tried again at 2026-01-01T10:00:00.000Z, after 2 failed attempts.',
    ],
    [
      'waits for a decision',
      { ...running, active: [{ ...queued, step: 'approve', handler: null, dueAt: null }] },
      'waiting',
      'Step `approve` waits for a decision since 2026-01-01T10:00:00.000Z.',
    ],
    [
      'has a compensation that is due',
      { ...running, status: 'ROLLING_BACK', active: [{ ...queued, compensates: true }] },
      'queued',
      'The compensation of step `pay` is due since 2026-01-01T10:00:00.000Z and waits for a worker to take it.',
    ],
    ['has nothing active', running, 'queued', 'It is RUNNING and no step of it is active.'],
    [
      'has several steps: what keeps it longest is said first',
      {
        ...running,
        active: [
          { ...queued, step: 'approve', handler: null },
          { ...queued, leasedBy: 'w' },
        ],
      },
      'running',
      'Step `pay` runs on worker w; its lease ends at 2026-01-01T10:00:00.000Z unless the worker extends it. Step `approve` waits for a decision since 2026-01-01T10:00:00.000Z.',
    ],
  ])('says of one that %s', (_, input, reason, text) => {
    expect(whyOf(input)).toMatchObject({ reason, text })
  })
})

let bus: TestBus
let see: ReturnType<typeof observeWorkflows>
beforeAll(async () => {
  bus = await openTestBus()
  see = observeWorkflows(bus)
})
afterAll(() => bus.close())

const named = numbered('why')
const by = { actor: 'ann', reason: 'because' }

test('U-04 why() follows an instance from its start to its end', async () => {
  const name = named()
  const Flow = defineWorkflow('test', name, { dlq: true })
    .step('call', `${name} call`, { retry: ['1h'] })
    .waitHumanConfirm('approve')
    .step('pay', `${name} pay`)
    .build()
  const flow = await bus.hf.start(Flow)
  expect(await flow.why()).toMatchObject({ reason: 'noWorker', text: expect.stringContaining(`${name} call`) })

  const running = gate()
  let isOpen = false
  bus.hf.handle(`${name} call`, async () => {
    await running.passed
    if (!isOpen) throw new Error('not yet')
  })
  let hasAccount = false
  bus.hf.handle(`${name} pay`, () => {
    if (!hasAccount) throw new BusinessError('no such account', { code: 'NO_ACCOUNT' })
  })
  await bus.hf.pause({ definition: `test/${name}` }, by)
  const worker = await bus.hf.run({ poll: '20ms' })
  expect(await flow.why()).toMatchObject({ reason: 'paused' })
  await bus.hf.resume({ definition: `test/${name}` }, by)
  await see.untilStep(flow.id, 'call', 'RUNNING')
  expect(await flow.why()).toMatchObject({ reason: 'running', at: expect.any(Date) })
  running.open()
  const later = await waitFor('it waits for its retry', async () => {
    const why = await flow.why()
    return why.reason === 'notDue' ? why : undefined
  })
  expect(later).toMatchObject({ text: expect.stringContaining('tried again'), at: expect.any(Date) })
  isOpen = true
  await flow.retry(by, { step: 'call' })
  await see.untilStep(flow.id, 'approve', 'WAITING_DECISION')
  expect(await flow.why()).toMatchObject({
    reason: 'waiting',
    text: expect.stringContaining('`approve` waits for a decision'),
  })
  await flow.decide('approve', 'confirm', by)
  await see.until(flow.id, 'DLQ')
  expect(await flow.why()).toMatchObject({
    reason: 'needsPerson',
    text: expect.stringContaining('NO_ACCOUNT: no such account'),
  })
  await worker.stop()
  hasAccount = true
  await flow.retry(by)
  expect(await flow.why()).toMatchObject({ reason: 'noWorker' })
  const other = await bus.hf.run({ poll: '20ms' })
  await flow.result()
  expect(await flow.why()).toMatchObject({ reason: 'ended' })
  await other.stop()
})

test('U-04 why() of an instance that begins later says when', async () => {
  const name = named()
  bus.hf.handle(name, () => undefined)
  const worker = await bus.hf.run({ poll: '1h' })
  const [row] = await bus.sql<{ at: Date }>(`select holdfast.now() + interval '1 hour' as at`)
  const startAt = row?.at ?? new Date()
  const flow = await bus.hf.start(defineWorkflow('test', name).step('a', name).build(), null, { startAt })
  expect(await flow.why()).toEqual({
    reason: 'notDue',
    text: `The start of the instance begins at ${startAt.toISOString()}.`,
    at: startAt,
  })
  await worker.stop()
})
