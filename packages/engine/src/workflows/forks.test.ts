import { gate, numbered, observeWorkflows, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BusinessError } from '../kernel/failure/failure-errors.js'
import type { StepHandler } from './context.js'
import { defineWorkflow, type WorkflowBranch } from './define.js'

let bus: TestBus
let others: TestBus[]
let see: ReturnType<typeof observeWorkflows>
beforeAll(async () => {
  bus = await openTestBus()
  see = observeWorkflows(bus)
  others = await Promise.all([1, 2, 3].map(() => openTestBus({ connectionString: bus.connectionString, poolSize: 4 })))
})
afterAll(() => Promise.all([bus, ...others].map((each) => each.close())))

const named = numbered('forks')
const soon = { retry: ['1ms'] } as const

/** Registers a handler in all services and has their workers run. */
async function everywhere(handlers: Record<string, StepHandler>): Promise<() => Promise<unknown>> {
  for (const { hf } of others) for (const [name, handler] of Object.entries(handlers)) hf.handle(name, handler)
  const workers = await Promise.all(others.map(({ hf }) => hf.run({ poll: '20ms', concurrency: 4 })))
  return () => Promise.all(workers.map((worker) => worker.stop()))
}

/** A branch of one step. */
const branchOf = (handler: string) => (step: string) => (b: WorkflowBranch<'f'>) => b.step(step, handler)

test('W-07 branches on several workers: a join `all` fires once, with the output of each branch', async () => {
  const name = named()
  const stop = await everywhere({ [name]: (_, { stepName }) => stepName })
  const steps = ['a', 'b', 'c', 'd', 'e', 'g']
  const Flow = defineWorkflow('test', name)
    .fork('f', ...steps.map(branchOf(name)))
    .join('j', 'all')
    .step('last', name)
    .build()
  const ids = await Promise.all(Array.from({ length: 15 }, async () => (await bus.hf.start(Flow)).id))
  for (const id of ids) {
    await see.until(id, 'COMPLETED')
    const lines = await see.lines(id)
    expect(lines.filter((line) => /^(join_completed|step_started last)/.test(line))).toEqual([
      'join_completed j',
      'step_started last',
    ])
    const last = (await bus.hf.workflow(id).steps()).find((step) => step.name === 'last')
    expect(last?.input).toEqual(Object.fromEntries(steps.map((step) => [step, step])))
  }
  await stop()
})

test('W-07 `any` goes on with the first success; the losers are aborted, and their ends cannot fail the winner', async () => {
  const name = named()
  const told: string[] = []
  const fast = gate()
  const stop = await everywhere({
    [`${name} fast`]: () => fast.passed.then(() => 'won'),
    [`${name} slow`]: (_, { signal, stepName }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          told.push(stepName)
          reject(new BusinessError('stopped'))
        })
      }),
  })
  const Flow = defineWorkflow('test', name)
    .fork(
      'f',
      (b) => b.step('fast', `${name} fast`),
      (b) => b.step('slow', `${name} slow`),
      (b) => b.step('later', `${name} slow`, { delay: '1h' }),
    )
    .join('j', 'any')
    .step('last', `${name} fast`)
    .build()
  const { id } = await bus.hf.start(Flow)
  await see.untilStep(id, 'slow', 'RUNNING')
  fast.open()
  const { output } = await see.until(id, 'COMPLETED')
  await waitFor('the loser is told', () => told.length === 1)
  expect([told, output]).toEqual([['slow'], 'won'])
  await waitFor('its end is on record', async () => {
    const steps = await bus.hf.workflow(id).steps()
    return steps.every(({ queued }) => queued === null)
  })
  expect(await see.statuses(id)).toEqual({
    f: 'COMPLETED',
    j: 'COMPLETED',
    fast: 'COMPLETED',
    slow: 'SKIPPED',
    later: 'SKIPPED',
    last: 'COMPLETED',
  })
  await stop()
})

test('W-07 `any` tolerates a failing branch, and fails when all have failed; what they completed is undone', async () => {
  const name = named()
  const undone: string[] = []
  const stop = await everywhere({
    [`${name} ok`]: (_, { stepName }) => stepName,
    [`${name} no`]: () => {
      throw new BusinessError('no')
    },
    [`${name} undo`]: (_, { stepName }) => void undone.push(stepName),
  })
  const flow = (version: number, last: string) =>
    defineWorkflow('test', name, { version })
      .fork(
        'f',
        (b) => b.step('a', `${name} ok`).onFailure('ua', `${name} undo`).step('b', `${name} no`),
        (b) => b.step('c', `${name} ${last}`),
      )
      .join('j', 'any')
      .build()
  expect(await (await bus.hf.start(flow(1, 'ok'))).result()).toEqual({ c: 'c' })
  expect(undone).toEqual([])
  const { id } = await bus.hf.start(flow(2, 'no'))
  await see.until(id, 'FAILED')
  expect(await see.statuses(id)).toMatchObject({
    j: 'ROLLED_BACK',
    a: 'ROLLED_BACK',
    b: 'ROLLED_BACK',
    c: 'ROLLED_BACK',
  })
  expect(undone).toEqual(['a'])
  await stop()
})

test('W-07 W-16 nested forks with conditions that take either side: each join waits for what was really taken', async () => {
  const name = named()
  const stop = await everywhere({ [name]: (_, { stepName }) => ({ step: stepName, n: 5 }) })
  const Flow = defineWorkflow('test', name)
    .step('first', name)
    .fork(
      'outer',
      (b) =>
        b
          .fork(
            'inner',
            (c) => c.condition('no else', '{{ gt .n 9 }}').step('skipped 1', name),
            (c) => c.condition('has else', '{{ gt .n 9 }}', (e) => e.step('else', name)).step('skipped 2', name),
          )
          .join('inner join', 'all'),
      (b) => b.step('other', name),
    )
    .join('outer join', 'all')
    .step('last', name)
    .build()
  const { id } = await bus.hf.start(Flow)
  await see.until(id, 'COMPLETED')
  const steps = await bus.hf.workflow(id).steps()
  const input = steps.find((step) => step.name === 'last')?.input
  expect(input).toEqual({
    inner: { 'no else': { step: 'first', n: 5 }, 'has else': { step: 'else', n: 5 } },
    other: { step: 'other', n: 5 },
  })
  expect(steps.map((step) => step.name)).not.toContain('skipped 1')
  expect((await see.lines(id)).indexOf('join_completed outer join')).toBeGreaterThan(
    (await see.lines(id)).indexOf('join_completed inner join'),
  )
  await stop()
})

test('W-08 rollback undoes the failing step first, then strictly the last to end, one after the other, and then the instance is FAILED', async () => {
  const name = named()
  const calls: string[] = []
  let undoing = 0
  const sibling = gate()
  const calledOff = gate()
  const stop = await everywhere({
    [`${name} ok`]: () => undefined,
    [`${name} no`]: () => {
      throw new BusinessError('no', { code: 'DECLINED' })
    },
    [`${name} late`]: (_, { signal }) => {
      signal.addEventListener('abort', () => calledOff.open())
      return sibling.passed
    },
    async [`${name} undo`](_, { compensation, instanceId }) {
      undoing += 1
      expect(undoing).toBe(1)
      expect((await bus.hf.workflow(instanceId).get()).status).toBe('ROLLING_BACK')
      calls.push(compensation ?? '')
      undoing -= 1
    },
  })
  const undo = `${name} undo`
  const Flow = defineWorkflow('test', name)
    .step('before', `${name} ok`)
    .onFailure('u before', undo)
    .savePoint('save')
    .step('a', `${name} ok`)
    .onFailure('u a', undo)
    .step('b', `${name} ok`)
    .fork(
      'f',
      (b) => b.step('fails', `${name} no`, { delay: '200ms' }).onFailure('u fails', undo),
      (b) => b.step('late', `${name} late`).onFailure('u late', undo),
      (b) => b.step('pending', `${name} ok`, { delay: '1h' }).onFailure('u pending', undo),
    )
    .join('j', 'all')
    .build()
  const { id } = await bus.hf.start(Flow)
  // K-19: a sibling that runs is called off, and nothing is undone beside it.
  await calledOff.passed
  expect((await bus.hf.workflow(id).get()).status).toBe('ROLLING_BACK')
  expect(calls).toEqual([])
  sibling.open()
  const { error } = await see.until(id, 'FAILED')
  expect(error).toMatchObject({ step: 'fails', code: 'DECLINED' })
  expect(calls).toEqual(['u fails', 'u late', 'u a'])
  expect(await see.statuses(id)).toEqual({
    before: 'COMPLETED',
    save: 'COMPLETED',
    a: 'ROLLED_BACK',
    b: 'ROLLED_BACK',
    f: 'ROLLED_BACK',
    j: 'SKIPPED',
    fails: 'ROLLED_BACK',
    late: 'ROLLED_BACK',
    pending: 'SKIPPED',
  })
  expect((await see.lines(id)).at(-1)).toBe('workflow_failed')
  await stop()
})

test('W-07 W-08 only the executed side of a condition is undone', async () => {
  const name = named()
  const calls: string[] = []
  const stop = await everywhere({
    [`${name} ok`]: () => ({ n: 1 }),
    [`${name} no`]: () => {
      throw new BusinessError('no')
    },
    [`${name} undo`]: (_, { stepName }) => void calls.push(stepName),
  })
  const undo = `${name} undo`
  const Flow = defineWorkflow('test', name)
    .step('a', `${name} ok`)
    .onFailure('u a', undo)
    .condition('c', '{{ gt .n 5 }}', (e) =>
      e.step('else', `${name} ok`).onFailure('u else', undo).step('fails', `${name} no`),
    )
    .step('next', `${name} ok`)
    .onFailure('u next', undo)
    .build()
  const { id } = await bus.hf.start(Flow)
  await see.until(id, 'FAILED')
  expect(calls).toEqual(['else', 'a'])
  await stop()
})

test('a step is tried exactly N times, each after its delay, and a business failure only once', async () => {
  const name = named()
  const attempts: number[] = []
  let declined = 0
  const stop = await everywhere({
    [name]: (_, { attempt }) => {
      attempts.push(attempt)
      throw new Error('not yet')
    },
    [`${name} declined`]: () => {
      declined += 1
      throw new BusinessError('no')
    },
  })
  const Flow = defineWorkflow('test', name)
    .step('a', name, { retry: { maxAttempts: 3, delays: ['1h', '1h'] } })
    .build()
  const { id } = await bus.hf.start(Flow)
  for (const n of [1, 2]) {
    await see.untilStep(id, 'a', 'PENDING')
    await waitFor(
      `it failed ${n} times`,
      async () => (await bus.hf.workflow(id).history()).filter(({ type }) => type === 'step_retry').length === n,
    )
    expect(attempts).toHaveLength(n)
    const [step] = await bus.hf.workflow(id).steps()
    const now = await bus.sql<{ now: Date }>('select holdfast.now()')
    const delay = (step?.queued?.dueAt.getTime() ?? 0) - (now[0]?.now.getTime() ?? 0)
    expect(delay).toBeGreaterThan(3_500_000)
    await bus.moveClock(3_700_000)
  }
  await see.until(id, 'FAILED')
  expect(attempts).toEqual([1, 2, 3])
  const other = await bus.hf.start(defineWorkflow('test', `${name} b`).step('a', `${name} declined`, soon).build())
  await see.until(other.id, 'FAILED')
  expect(declined).toBe(1)
  await stop()
})

test('W-08 two branches that fail in the same moment, reported together: both are recorded, and undone in reverse order', async () => {
  const name = named()
  const both = gate()
  let waiting = 0
  bus.hf.handle(name, async (_, { stepName }) => {
    waiting += 1
    await both.passed
    throw stepName === 'a' ? new BusinessError('no') : new Error('not now')
  })
  const worker = await bus.hf.run({ poll: '20ms', concurrency: 4 })
  const { id } = await bus.hf.start(
    defineWorkflow('test', name).fork('f', branchOf(name)('a'), branchOf(name)('b')).join('j', 'all').build(),
  )
  await waitFor('both are called', () => waiting === 2)
  both.open()
  await see.until(id, 'FAILED')
  const events = await bus.hf.workflow(id).history()
  const of = (type: string) => events.flatMap((event) => (event.type === type ? [event.step] : []))
  // Where `b` was reported first after all, its next attempt is called off.
  expect(of('step_skipped').filter((step) => step !== 'b')).toEqual(['j'])
  expect(of('compensation_success')).toEqual(['a', 'b', 'f'])
  await worker.stop()
})
