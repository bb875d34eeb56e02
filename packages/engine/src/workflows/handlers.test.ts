import { gate, numbered, observeWorkflows, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Metrics } from '../kernel/metrics/metrics.js'
import { defineWorkflow } from './define.js'

/** What was measured, by name and type. */
function metricsNoted() {
  const counts: string[] = []
  const gauges = new Map<string, number>()
  const metrics: Metrics = {
    count: (name, { type = '' }) => void counts.push(`${name} ${type}`),
    observe: () => undefined,
    gauge: (name, { type = '' }, value) => void gauges.set(`${name} ${type}`, value),
  }
  return { counts, gauges, metrics }
}

let bus: TestBus
let see: ReturnType<typeof observeWorkflows>
beforeAll(async () => {
  bus = await openTestBus()
  see = observeWorkflows(bus)
})
afterAll(() => bus.close())

const named = numbered('handlers')
const open = (metrics?: Metrics) =>
  openTestBus({ connectionString: bus.connectionString, ...(metrics ? { metrics } : {}) })
const eventsNamed = async (id: string, type: string) =>
  (await bus.hf.workflow(id).history()).filter((event) => event.type === type)

test('W-04 two services with disjoint handlers carry one instance together, its compensations included', async () => {
  const name = named()
  const calls: string[] = []
  const [left, right] = await Promise.all([open(), open()])
  const note = (service: string) => (_: unknown, ctx: { stepName: string; compensation: string | null }) => {
    calls.push(`${service} ${ctx.compensation ?? ctx.stepName}`)
    if (ctx.stepName === 'd' && ctx.compensation === null) throw new Error('no')
  }
  for (const handler of ['A', 'UndoB']) left.hf.handle(`${name} ${handler}`, note('left'))
  for (const handler of ['B', 'UndoA', 'D']) right.hf.handle(`${name} ${handler}`, note('right'))
  await Promise.all([left.hf.run({ poll: '20ms' }), right.hf.run({ poll: '20ms' })])
  const Flow = defineWorkflow('test', name)
    .step('a', `${name} A`)
    .onFailure('undo a', `${name} UndoA`)
    .step('b', `${name} B`)
    .onFailure('undo b', `${name} UndoB`)
    .step('c', `${name} A`)
    .step('d', `${name} D`, { retry: { maxAttempts: 1 } })
    .build()
  const { id } = await bus.hf.start(Flow)
  await see.until(id, 'FAILED')
  expect(calls).toEqual(['left a', 'right b', 'left c', 'right d', 'left undo b', 'right undo a'])
  await Promise.all([left.close(), right.close()])
})

test('K-24 a handler named like the lane of starts is refused', () => {
  expect(() => bus.hf.handle('_root_', () => 1)).toThrow(/names that begin with `_root_` are reserved/)
  bus.hf.handle('handlers/with#signs', () => 1)
})

test('W-04 a handler that is registered later is used by running workers', async () => {
  const name = named()
  const service = await open()
  await service.hf.run({ poll: '20ms' })
  const { id } = await bus.hf.start(defineWorkflow('test', name).step('a', name).build())
  service.hf.handle(name, () => 'late')
  expect((await see.until(id, 'COMPLETED')).output).toBe('late')
  await service.close()
})

test('W-04 a handler that was removed between claim and call: the step is released with a cooldown, its attempts unchanged', async () => {
  const name = named()
  const { metrics, counts } = metricsNoted()
  const removing = gate()
  let service: TestBus | undefined
  const remove = () => void service?.hf.workflows.removeHandler(name)
  service = await openTestBus({
    connectionString: bus.connectionString,
    metrics,
    faults: (point) => (point === 'after workflows.claim' ? remove() : undefined),
  })
  const Flow = defineWorkflow('test', name).step('a', name).build()
  const { id } = await bus.hf.start(Flow)
  service.hf.handle(name, () => 1)
  await service.hf.run({ poll: '20ms' })
  const given = await waitFor(
    'it is given back',
    async () => (await eventsNamed(id, 'step_skipped_missing_handler'))[0],
  )
  expect(given).toMatchObject({ step: 'a', status: 'PENDING', detail: { kind: 'step' } })
  const [step] = await bus.hf.workflow(id).steps()
  expect(step).toMatchObject({ status: 'PENDING', attempts: 0, startedAt: null, queued: { leasedBy: null } })
  const cooldown = (step?.queued?.dueAt.getTime() ?? 0) - given.at.getTime()
  expect(cooldown).toBeGreaterThanOrEqual(4_000)
  expect(cooldown).toBeLessThanOrEqual(6_000)
  expect(counts).toContain(`steps_released ${name}`)
  removing.open()
  await service.close()
  // Due, and claimed by somebody who has it.
  bus.hf.handle(name, (_, { attempt }) => attempt)
  await bus.moveClock(6_000)
  const worker = await bus.hf.run({ poll: '20ms' })
  expect((await see.until(id, 'COMPLETED')).output).toBe(1)
  await worker.stop()
})

test('W-04 a compensation whose handler was removed is released in the same way', async () => {
  const name = named()
  const claimed = `select from holdfast.workflow_step where handler = $1 and leased_at is not null`
  const service: TestBus = await openTestBus({
    connectionString: bus.connectionString,
    faults: async (point) => {
      if (point !== 'after workflows.claim' || (await bus.sql(claimed, [`undo ${name}`])).length === 0) return
      service.hf.workflows.removeHandler(`undo ${name}`)
    },
  })
  service.hf.handle(`undo ${name}`, () => 1)
  service.hf.handle(name, () => {
    throw new Error('no')
  })
  const Flow = defineWorkflow('test', name)
    .step('a', name, { retry: { maxAttempts: 1 } })
    .onFailure('u', `undo ${name}`)
    .build()
  const { id } = await bus.hf.start(Flow)
  await service.hf.run({ poll: '20ms' })
  const [given] = await waitFor('it is given back', async () => {
    const events = await eventsNamed(id, 'step_skipped_missing_handler')
    return events.length > 0 ? events : undefined
  })
  expect(given).toMatchObject({ step: 'a', status: 'COMPENSATING', detail: { kind: 'compensation' } })
  const [step] = await bus.hf.workflow(id).steps()
  expect(step).toMatchObject({ status: 'COMPENSATING', attempts: 1, compensationAttempts: 0 })
  expect((await bus.hf.workflow(id).get()).status).toBe('ROLLING_BACK')
  await service.close()
})

test('W-04 a step that no worker has a handler for is shown: on the step, as an event at most once a minute, as a metric', async () => {
  const name = named()
  const { metrics, gauges } = metricsNoted()
  const service = await open(metrics)
  const other = named()
  service.hf.handle(other, () => 1)
  const Flow = defineWorkflow('test', name).step('a', name).build()
  const first = await bus.hf.start(Flow)
  const second = await bus.hf.start(Flow)
  const delayed = await bus.hf.start(
    defineWorkflow('test', other).step('a', `${name} delayed`, { delay: '10s' }).build(),
  )
  await bus.sql(`update holdfast.chore set due_at = holdfast.now() where name = 'workflow_handlers'`)
  await service.hf.run({ poll: '20ms' })
  const missing = () => eventsNamed(first.id, 'step_skipped_missing_handler')
  const [event] = await waitFor('it is told', async () => ((await missing()).length > 0 ? missing() : undefined))
  expect(event).toMatchObject({ step: 'a', status: 'PENDING', detail: { handler: name } })
  await waitFor('it is measured', () => gauges.get(`steps_without_handler ${name}`) === 2)
  expect(await eventsNamed(second.id, 'step_skipped_missing_handler')).toEqual([])
  const shown = async (id: string) => (await bus.hf.workflow(id).steps())[0]?.queued
  expect(await shown(second.id)).toMatchObject({ handler: name, handlerMissing: true })
  const told = async () =>
    (await bus.sql<{ handler: string }>('select * from holdfast.note_missing_handlers()')).map(({ handler }) => handler)
  // Asked again within the minute: it is missing still, and nobody is told.
  expect(await told()).toContain(name)
  expect(await told()).not.toContain(`${name} delayed`)
  expect(await missing()).toHaveLength(1)
  await bus.moveClock(61_000)
  // Nobody has made it ready, because nobody has its handler.
  await waitFor('the delayed one is told too', async () => {
    await told()
    return (await eventsNamed(delayed.id, 'step_skipped_missing_handler')).length > 0
  })
  await waitFor('it is told again', async () => (await missing()).length === 2)
  service.hf.handle(name, () => 1)
  await see.until(first.id, 'COMPLETED')
  await service.close()
})

test('W-04 W-12 steps of paused handlers and definitions are not claimed until they are resumed', async () => {
  const name = named()
  const by = { actor: 'ann', reason: 'maintenance' }
  const calls: string[] = []
  const service = await open()
  for (const handler of [`${name} 1`, `${name} 2`]) {
    service.hf.handle(handler, (_, { workflow }) => void calls.push(`${workflow} ${handler}`))
  }
  await service.hf.pause({ handler: `${name} 1` }, by)
  const flow = (letter: string, handler: number) =>
    defineWorkflow('test', `${name} ${letter}`).step('a', `${name} ${handler}`).build()
  const paused = await bus.hf.start(flow('p', 1))
  service.hf.register(flow('q', 2))
  await service.hf.pause({ definition: `test/${name} q` }, by)
  const quiet = await bus.hf.start(flow('q', 2))
  const free = await bus.hf.start(flow('r', 2))
  await service.hf.run({ poll: '20ms' })
  await see.until(free.id, 'COMPLETED')
  expect(calls).toEqual([`test/${name} r ${name} 2`])
  for (const { id } of [paused, quiet]) {
    expect(await bus.hf.workflow(id).get()).toMatchObject({ paused: true })
    expect((await bus.hf.workflow(id).steps())[0]?.queued).toMatchObject({ paused: true, dueAt: expect.any(Date) })
  }
  await bus.hf.resume({ handler: `${name} 1` }, by)
  await bus.hf.resume({ definition: `test/${name} q` }, by)
  await see.until(paused.id, 'COMPLETED')
  await see.until(quiet.id, 'COMPLETED')
  await service.close()
})

test('W-04 a worker that stops releases steps that it claimed and did not call, as if they had not been claimed', async () => {
  const name = named()
  const service = await open()
  const busy = gate()
  let called = 0
  service.hf.handle(name, async () => {
    called += 1
    await busy.passed
  })
  const Flow = defineWorkflow('test', name).step('a', name).build()
  const ids = await Promise.all(Array.from({ length: 8 }, async () => (await bus.hf.start(Flow)).id))
  const worker = await service.hf.run({ poll: '20ms', concurrency: 2 })
  await waitFor('two are called', () => called === 2)
  const stopping = worker.stop()
  const states = async () => {
    const all = await Promise.all(ids.map((id) => bus.hf.workflow(id).steps()))
    return all.flat()
  }
  await waitFor('the others are free', async () => {
    const leased = (await states()).filter(({ queued }) => queued?.leasedBy != null)
    return leased.length === 2
  })
  for (const step of (await states()).filter(({ status }) => status === 'PENDING')) {
    expect(step).toMatchObject({ attempts: 0, startedAt: null })
  }
  busy.open()
  await stopping
  expect((await states()).filter(({ status }) => status === 'COMPLETED')).toHaveLength(2)
  await service.close()
})
