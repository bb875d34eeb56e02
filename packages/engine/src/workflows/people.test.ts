import { gate, numbered, observeWorkflows, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BusinessError } from '../kernel/failure/failure-errors.js'
import { newId } from '../kernel/ids/id.js'
import { defineWorkflow } from './define.js'

let bus: TestBus
let operator: TestBus
let see: ReturnType<typeof observeWorkflows>
beforeAll(async () => {
  bus = await openTestBus({ abortGrace: '300ms' })
  operator = await openTestBus({ connectionString: bus.connectionString })
  see = observeWorkflows(operator)
})
afterAll(() => Promise.all([bus.close(), operator.close()]))

const named = numbered('people')
const by = { actor: 'ann', reason: 'because' }
const people = () => operator.hf
/** A worker of the handlers that are there, which sleeps unless it is woken. */
const sleepy = () => bus.hf.run({ poll: '1h' })
const startHuman = async (name: string, input: unknown = null) => {
  const Flow = defineWorkflow('test', name)
    .step('a', name)
    .onFailure('ua', name)
    .waitHumanConfirm('ok')
    .onFailure('uo', name)
    .step('b', name)
    .build()
  const { id } = await bus.hf.start(Flow, input)
  return id
}
function calling(name: string) {
  const calls: string[] = []
  bus.hf.handle(name, (input, { stepName, compensation }) => {
    calls.push(compensation ?? stepName)
    return input
  })
  return calls
}

test('W-10 confirmed, an instance goes on at once: its worker is woken up, without waiting for a poll', async () => {
  const name = named()
  const calls = calling(name)
  const worker = await sleepy()
  const id = await startHuman(name, { total: 5 })
  await see.untilStep(id, 'ok', 'WAITING_DECISION')
  expect(await people().workflows.decisions.waiting({ type: name })).toMatchObject([
    {
      instanceId: id,
      domain: 'test',
      type: name,
      version: 1,
      step: 'ok',
      input: { total: 5 },
      since: expect.any(Date),
    },
  ])
  await people().workflow(id).decide('ok', 'confirm', { actor: 'bob', reason: 'checked' })
  expect((await see.until(id, 'COMPLETED')).output).toEqual({ total: 5 })
  expect(calls).toEqual(['a', 'b'])
  expect(await see.statuses(id)).toEqual({ a: 'COMPLETED', ok: 'CONFIRMED', b: 'COMPLETED' })
  expect(await people().workflows.decisions.of(id)).toEqual([
    { step: 'ok', decision: 'confirm', actor: 'bob', reason: 'checked', at: expect.any(Date) },
  ])
  expect(await people().workflows.decisions.waiting({ type: name })).toEqual([])
  const made = (await people().workflow(id).history()).find(({ type }) => type === 'decision_made')
  expect(made).toMatchObject({
    step: 'ok',
    status: 'CONFIRMED',
    actor: 'bob',
    reason: 'checked',
    detail: { decision: 'confirm' },
  })
  await worker.stop()
})

test('W-10 rejected, it is ABORTED and nothing is undone; the decision is kept', async () => {
  const name = named()
  const calls = calling(name)
  const worker = await sleepy()
  const id = await startHuman(name)
  await see.untilStep(id, 'ok', 'WAITING_DECISION')
  await people().workflow(id).decide('ok', 'reject', by)
  const rejected = { code: 'REJECTED', message: `${by.actor} rejected it: ${by.reason}` }
  expect((await see.until(id, 'ABORTED')).error).toMatchObject({ step: 'ok', ...rejected })
  await expect(people().workflow(id).result()).rejects.toMatchObject({ code: 'HF_NOT_COMPLETED', details: rejected })
  expect(await see.statuses(id)).toEqual({ a: 'COMPLETED', ok: 'REJECTED' })
  expect(calls).toEqual(['a'])
  expect(await people().workflows.decisions.of(id)).toMatchObject([{ decision: 'reject', ...by }])
  await worker.stop()
})

test('W-10 a second decision, one too early, one on another step and one without an actor are refused and change nothing', async () => {
  const name = named()
  const id = await startHuman(name)
  await expect(people().workflow(id).decide('ok', 'confirm', by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
  await expect(people().workflow(id).decide('a', 'confirm', by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
  await expect(people().workflow(id).decide('okay', 'confirm', by)).rejects.toMatchObject({ code: 'HF_UNKNOWN_STEP' })
  await expect(people().workflow(newId()).decide('ok', 'confirm', by)).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
  // @ts-expect-error no such verdict
  await expect(people().workflow(id).decide('ok', 'perhaps', by)).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  calling(name)
  const worker = await sleepy()
  await see.untilStep(id, 'ok', 'WAITING_DECISION')
  for (const nobody of [
    { actor: '', reason: 'x' },
    { actor: '  ', reason: 'x' },
    { actor: 'ann', reason: '' },
  ]) {
    await expect(people().workflow(id).decide('ok', 'confirm', nobody)).rejects.toMatchObject({
      code: 'HF_INVALID_ACTOR',
    })
  }
  expect(await see.statuses(id)).toMatchObject({ ok: 'WAITING_DECISION' })
  const both = await Promise.allSettled([
    people().workflow(id).decide('ok', 'confirm', by),
    bus.hf.workflow(id).decide('ok', 'reject', by),
  ])
  expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
  await expect(people().workflow(id).decide('ok', 'confirm', by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
  expect(await people().workflows.decisions.of(id)).toHaveLength(1)
  await worker.stop()
})

/** A handler that notes when it is told to stop. */
function stoppable(name: string, onAbort: (reason: unknown) => unknown) {
  const running = gate()
  const told: unknown[] = []
  bus.hf.handle(`${name} long`, (_, { signal }) => {
    running.open()
    return new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => {
        told.push(signal.reason)
        try {
          resolve(onAbort(signal.reason))
        } catch (error) {
          reject(error)
        }
      })
    })
  })
  return { running, told }
}
const longFlow = (name: string) =>
  defineWorkflow('test', name)
    .step('a', name)
    .onFailure('ua', name)
    .step('long', `${name} long`)
    .onFailure('ul', name)
    .step('never', name)
    .build()

test.each([
  ['woken', true],
  ['polling', false],
])(
  'W-11 cancel reaches a handler on another worker (%s); K-19 completed steps are undone, and so is the one that ended upon its signal',
  async (_, notify) => {
    const name = named()
    const calls = calling(name)
    const { running, told } = stoppable(name, (reason) => {
      throw reason
    })
    const worker = await bus.hf.run({ poll: '100ms', notify })
    const { id } = await bus.hf.start(longFlow(name))
    await running.passed
    await people().workflow(id).cancel(by)
    await waitFor('it is told', () => told.length === 1)
    expect(told[0]).toMatchObject({ code: 'HF_STOPPED' })
    await see.until(id, 'CANCELLED')
    expect(await see.statuses(id)).toEqual({ a: 'ROLLED_BACK', long: 'ROLLED_BACK' })
    expect(calls).toEqual(['a', 'ul', 'ua'])
    const started = (await people().workflow(id).history()).find(({ type }) => type === 'cancellation_started')
    expect(started).toMatchObject({ status: 'CANCELLING', ...by })
    // Twice is once.
    await people().workflow(id).cancel(by)
    expect((await see.lines(id)).filter((line) => line === 'cancellation_started')).toHaveLength(1)
    await worker.stop()
  },
)

test('W-11 a handler that completes anyway is recorded and undone', async () => {
  const name = named()
  const calls = calling(name)
  const { running } = stoppable(name, () => 'done anyway')
  const worker = await sleepy()
  const { id } = await bus.hf.start(longFlow(name))
  await running.passed
  await people().workflow(id).cancel(by)
  await see.until(id, 'CANCELLED')
  expect(calls).toEqual(['a', 'ul', 'ua'])
  expect(await see.statuses(id)).toEqual({ a: 'ROLLED_BACK', long: 'ROLLED_BACK' })
  expect(await see.lines(id)).toEqual(expect.arrayContaining(['step_skipped long', 'step_completed long']))
  await worker.stop()
})

test('W-11 a handler that ignores its signal is waited for for a while; then its outcome is unknown, and it is undone', async () => {
  const name = named()
  const calls = calling(name)
  const ignores = gate()
  const called = gate()
  bus.hf.handle(`${name} long`, async () => {
    called.open()
    await ignores.passed
    return 'much too late'
  })
  const worker = await sleepy()
  const { id } = await bus.hf.start(longFlow(name))
  await called.passed
  await people().workflow(id).cancel(by)
  await see.until(id, 'CANCELLED')
  expect(calls).toEqual(['a', 'ul', 'ua'])
  const failed = (await people().workflow(id).history()).find(({ type }) => type === 'step_failed')
  expect(failed).toMatchObject({ step: 'long', error: { code: 'CALL_LOST' } })
  const lines = await see.lines(id)
  ignores.open()
  await worker.stop()
  expect(await see.lines(id)).toEqual(lines)
})

test('W-11 a call whose service is gone counts as lost when its lease ends, whichever workers run; cancel and rollback continue', async () => {
  const name = named()
  const calls = calling(name)
  const gone = await openTestBus({ connectionString: bus.connectionString })
  const called = gate()
  gone.hf.handle(`${name} long`, () => {
    called.open()
    return new Promise(() => undefined)
  })
  const service = await gone.hf.run({ poll: '20ms' })
  const worker = await sleepy()
  const { id } = await bus.hf.start(longFlow(name))
  await called.passed
  service.stopNow()
  await people().workflow(id).cancel(by)
  await see.endLease(id, 'long')
  await see.until(id, 'CANCELLED')
  expect(calls).toEqual(['a', 'ul', 'ua'])
  expect((await people().workflow(id).steps()).find((step) => step.name === 'long')).toMatchObject({
    status: 'ROLLED_BACK',
  })
  await worker.stop()
  await gone.close()
})

test('K-19 what a worker has claimed and not called when it is stopped is not undone, though it was cancelled meanwhile', async () => {
  const name = named()
  const undone: string[] = []
  const service = await openTestBus({ connectionString: bus.connectionString })
  const busy = gate()
  const blocked = gate()
  service.hf.handle(`${name} first`, async () => {
    busy.open()
    await blocked.passed
  })
  service.hf.handle(`${name} second`, () => void undone.push('called'))
  service.hf.handle(`${name} undo`, (_, { stepName }) => void undone.push(stepName))
  const Flow = defineWorkflow('test', name)
    .fork(
      'f',
      (b) => b.step('first', `${name} first`, { priority: 100 }),
      (b) => b.step('second', `${name} second`).onFailure('undo second', `${name} undo`),
    )
    .join('j', 'all')
    .build()
  const { id } = await bus.hf.start(Flow)
  const worker = await service.hf.run({ poll: '20ms', concurrency: 1 })
  await busy.passed
  // Claimed ahead of its slot, where the worker does that; else as such a claim leaves it.
  const [row] = await bus.sql<{ leased: boolean }>(
    `select leased_at is not null as leased from holdfast.workflow_step where workflow_id = $1 and name = 'second'`,
    [id],
  )
  await people().workflow(id).cancel(by)
  const stopping = worker.stop('5s')
  blocked.open()
  await stopping
  const after = await service.hf.run({ poll: '20ms' })
  await see.until(id, 'CANCELLED')
  expect([row?.leased !== undefined, undone]).toEqual([true, []])
  expect(await see.statuses(id)).toMatchObject({ second: 'SKIPPED' })
  await after.stop()
  await service.close()
})

test('W-11 abort reaches running handlers and undoes nothing', async () => {
  const name = named()
  const calls = calling(name)
  const { running, told } = stoppable(name, () => {
    throw new BusinessError('stopped')
  })
  const worker = await sleepy()
  const { id } = await bus.hf.start(longFlow(name))
  await running.passed
  await people().workflow(id).cancel(by, { compensate: false })
  await see.until(id, 'ABORTED')
  await waitFor('it is told', () => told.length === 1)
  await waitFor('its end is on record', async () =>
    (await people().workflow(id).steps()).every(({ queued }) => queued === null),
  )
  expect(calls).toEqual(['a'])
  expect(await see.statuses(id)).toEqual({ a: 'COMPLETED', long: 'SKIPPED' })
  await people().workflow(id).cancel(by, { compensate: false })
  expect((await see.lines(id)).filter((line) => line === 'abort_started')).toHaveLength(1)
  await expect(people().workflow(id).cancel(by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
  await worker.stop()
})

test('W-11 cancel is prompt for a waiting human step and from the DLQ', async () => {
  const name = named()
  const calls = calling(name)
  bus.hf.handle(`${name} no`, () => {
    throw new BusinessError('no')
  })
  const worker = await sleepy()
  const waiting = await startHuman(name)
  const Dlq = defineWorkflow('test', `${name} dlq`, { dlq: true })
    .step('a', name)
    .onFailure('ua', name)
    .step('b', `${name} no`)
    .onFailure('ub', name)
    .build()
  const { id: dead } = await bus.hf.start(Dlq)
  await see.untilStep(waiting, 'ok', 'WAITING_DECISION')
  await see.until(dead, 'DLQ')
  calls.length = 0
  await people().workflow(waiting).cancel(by)
  await see.until(waiting, 'CANCELLED')
  expect(await see.statuses(waiting)).toEqual({ a: 'ROLLED_BACK', ok: 'SKIPPED' })
  await people().workflow(dead).cancel(by)
  await see.until(dead, 'CANCELLED')
  expect(await see.statuses(dead)).toEqual({ a: 'ROLLED_BACK', b: 'ROLLED_BACK' })
  expect((await people().trouble.list({ id: dead })).items).toEqual([])
  expect(calls).toEqual(['ua', 'ub', 'ua'])
  await worker.stop()
})

test('W-11 a confirmed step is undone too; a compensation that fails makes the cancelled instance FAILED, with a record', async () => {
  const name = named()
  const calls = calling(name)
  bus.hf.handle(`${name} no`, () => {
    throw new BusinessError('no')
  })
  const Flow = defineWorkflow('test', name)
    .step('a', name)
    .onFailure('ua', `${name} no`, { retry: { maxAttempts: 1 } })
    .waitHumanConfirm('ok')
    .onFailure('uo', name)
    .waitHumanConfirm('second')
    .build()
  const worker = await sleepy()
  const { id } = await bus.hf.start(Flow)
  await see.untilStep(id, 'ok', 'WAITING_DECISION')
  await people().workflow(id).decide('ok', 'confirm', by)
  await people().workflow(id).cancel(by)
  await see.until(id, 'FAILED')
  expect(await see.statuses(id)).toEqual({ a: 'FAILED', ok: 'ROLLED_BACK', second: 'SKIPPED' })
  expect(calls).toEqual(['a', 'uo'])
  expect((await people().trouble.list({ id })).items).toMatchObject([{ step: 'a', compensating: true }])
  await worker.stop()
})

test('W-11 terminal instances are refused, and unknown ones', async () => {
  const name = named()
  calling(name)
  const worker = await sleepy()
  const Flow = defineWorkflow('test', name).step('a', name).build()
  const { id } = await bus.hf.start(Flow)
  await see.until(id, 'COMPLETED')
  const lines = await see.lines(id)
  const { hf } = operator
  for (const compensate of [true, false]) {
    const wrong = { code: 'HF_WRONG_STATUS' }
    await expect(hf.workflow(id).cancel(by, { compensate })).rejects.toMatchObject(wrong)
    await expect(hf.workflow(newId()).cancel(by, { compensate })).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
    const nobody = { actor: '', reason: 'x' }
    await expect(hf.workflow(id).cancel(nobody, { compensate })).rejects.toMatchObject({ code: 'HF_INVALID_ACTOR' })
  }
  expect(() => hf.workflow('nonsense')).toThrow(expect.objectContaining({ code: 'HF_INVALID_ID' }))
  expect(await see.lines(id)).toEqual(lines)
  await worker.stop()
})

test('W-14 an operator makes a step due that waits for its next attempt', async () => {
  const name = named()
  let calls = 0
  bus.hf.handle(name, () => {
    calls += 1
    if (calls === 1) throw new Error('not yet')
  })
  const worker = await sleepy()
  const { id } = await bus.hf.start(
    defineWorkflow('test', name)
      .step('a', name, { retry: ['1h'] })
      .build(),
  )
  await waitFor('it has failed once', async () => (await see.lines(id)).includes('step_retry a'))
  await people().workflow(id).retry(by, { step: 'a' })
  await see.until(id, 'COMPLETED')
  expect(calls).toBe(2)
  expect((await people().workflow(id).steps())[0]).toMatchObject({ attempts: 2 })
  const retries = (await people().workflow(id).history()).filter(({ type }) => type === 'step_retry')
  expect(retries[1]).toMatchObject({ step: 'a', ...by })
  await expect(people().workflow(id).retry(by, { step: 'a' })).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
  await expect(people().workflow(newId()).retry(by, { step: 'a' })).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
  await worker.stop()
})

test('W-11 K-18 a cancel that a pause holds up is not retried: the call is refused, and the compensation comes after the pause', async () => {
  const name = named()
  const undone: string[] = []
  bus.hf.handle(name, () => undefined)
  bus.hf.handle(`undo ${name}`, () => void undone.push('a'))
  const worker = await sleepy()
  const Flow = defineWorkflow('test', name).step('a', name).onFailure('undo', `undo ${name}`).waitHumanConfirm('ok')
  const { id } = await bus.hf.start(Flow.build())
  await see.untilStep(id, 'ok', 'WAITING_DECISION')
  await bus.hf.pause({ definition: `test/${name}` }, by)
  await people().workflow(id).cancel(by)
  await waitFor('it is set aside', async () => {
    const rows = await bus.sql(`select from holdfast.workflow_step where workflow_id = $1 and due_at = 'infinity'`, [
      id,
    ])
    return rows.length === 1
  })
  for (const options of [{}, { step: 'a' }]) {
    await expect(people().workflow(id).retry(by, options)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
  }
  await bus.hf.resume({ definition: `test/${name}` }, by)
  await see.until(id, 'CANCELLED')
  expect(undone).toEqual(['a'])
  await worker.stop()
})
