import { numbered, observeWorkflows, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import type { StepContext } from './context.js'
import { defineWorkflow } from './define.js'

let bus: TestBus
let see: ReturnType<typeof observeWorkflows>
beforeAll(async () => {
  bus = await openTestBus()
  see = observeWorkflows(bus)
  await bus.hf.run({ poll: '20ms', concurrency: 8 })
})
afterAll(() => bus.close())

const named = numbered('context')
const soon = { retry: ['1ms'] } as const

test('W-05 a handler knows its instance, step, attempt, key, input and metadata; the key is the same on every attempt', async () => {
  const name = named()
  const seen: Omit<StepContext, 'signal' | 'logger'>[] = []
  const note = (_: unknown, ctx: StepContext) => {
    const { signal, logger, ...rest } = ctx
    expect([signal.aborted, typeof logger.info]).toEqual([false, 'function'])
    seen.push(rest)
    if (ctx.attempt < 3) throw new Error('not yet')
    return { done: ctx.stepName }
  }
  bus.hf.handle(name, note)
  bus.hf.handle(`undo ${name}`, note)
  bus.hf.handle(`fail ${name}`, () => {
    throw new Error('never')
  })
  const Flow = defineWorkflow('test', name, { version: 4 })
    .step('work', name, { ...soon, metadata: { colour: 'blue' } })
    .onFailure('take back', `undo ${name}`, soon)
    .step('fail', `fail ${name}`, { retry: { maxAttempts: 1 } })
    .build()
  const { id } = await bus.hf.start(Flow, { n: 5 })
  await see.until(id, 'FAILED')
  const transaction = expect.any(Function)
  const base = {
    transaction,
    instanceId: id,
    workflow: `test/${name}`,
    version: 4,
    stepName: 'work',
    maxAttempts: 3,
    input: { n: 5 },
  }
  const step = { ...base, compensation: null, output: undefined, outcome: null, metadata: { colour: 'blue' } }
  const undo = { ...base, compensation: 'take back', outcome: 'completed', output: { done: 'work' }, metadata: {} }
  const attempts = [1, 2, 3].map((attempt) => ({ attempt, isLastAttempt: attempt === 3 }))
  expect(seen).toEqual([
    ...attempts.map((it) => ({ ...step, ...it, idempotencyKey: `${id}/work`, originalKey: null })),
    ...attempts.map((it) => ({ ...undo, ...it, idempotencyKey: `${id}/take back`, originalKey: `${id}/work` })),
  ])
})

test('W-05 the output of a step is the input of the next, of a join that of each branch; a condition passes its input on', async () => {
  const name = named()
  const inputs: Record<string, unknown> = {}
  bus.hf.handle(name, (input, { stepName }) => {
    inputs[stepName] = input
    return { of: stepName, at: new Date(0), n: 10n }
  })
  const Flow = defineWorkflow('test', name)
    .step('first', name)
    .condition('check', '{{ eq .of "first" }}')
    .fork(
      'fork',
      (b) => b.step('l1', name).step('l2', name),
      (b) => b.condition('side', '{{ eq .of "nobody" }}', (e) => e.step('else', name)).step('never', name),
      (b) => b.condition('dead end', '{{ eq .of "nobody" }}').step('never either', name),
    )
    .join('join', 'all')
    .parallel(
      'both',
      (b) => b.step('p1', name),
      (b) => b.step('p2', name),
    )
    .step('last', name)
    .build()
  const output = await (await bus.hf.start(Flow, { at: new Date(5) })).result()
  const of = (step: string) => ({ of: step, at: new Date(0), n: 10n })
  const joined = { l1: of('l2'), side: of('else'), 'dead end': of('first') }
  expect(inputs).toEqual({
    first: { at: new Date(5) },
    l1: of('first'),
    l2: of('l1'),
    else: of('first'),
    p1: joined,
    p2: joined,
    last: { p1: of('p1'), p2: of('p2') },
  })
  expect(output).toEqual(of('last'))
})

test('W-05 an input schema types, checks and fills in what a handler gets; what does not fit fails the step for good', async () => {
  const name = named()
  let calls = 0
  const input = z.object({ n: z.number(), colour: z.string().default('red') })
  bus.hf.handle(
    name,
    ({ n, colour }) => {
      calls += 1
      return `${n} ${colour}`
    },
    { input },
  )
  const Flow = defineWorkflow('test', name).step('a', name, soon).build()
  expect(await (await bus.hf.start(Flow, { n: 1 })).result()).toBe('1 red')
  const { id } = await bus.hf.start(Flow, { n: 'one' })
  const { error } = await see.until(id, 'FAILED')
  expect(error).toMatchObject({ step: 'a', kind: 'PERMANENT', code: 'HF_INVALID_DATA' })
  expect(calls).toBe(1)
  expect((await bus.hf.workflow(id).steps())[0]).toMatchObject({ attempts: 0 })
})

test('W-05 null, undefined and no value are valid inputs and outputs', async () => {
  const name = named()
  const seen: unknown[] = []
  bus.hf.handle(name, (input) => void seen.push(input))
  const Chain = defineWorkflow('test', name).step('a', name).step('b', name).build()
  expect(await (await bus.hf.start(Chain)).result()).toBeNull()
  expect(seen).toEqual([null, null])
})

test('W-01 a step that must not be repeated is called once, also if it failed; its compensation too', async () => {
  const name = named()
  const calls: string[] = []
  bus.hf.handle(name, (_, { stepName, compensation }) => {
    calls.push(compensation ?? stepName)
    throw new Error('who knows')
  })
  const Flow = defineWorkflow('test', name)
    .step('pay', name, { nonIdempotent: true })
    .onFailure('repay', name, { nonIdempotent: true })
    .build()
  const { id } = await bus.hf.start(Flow)
  await see.until(id, 'FAILED')
  expect(calls).toEqual(['pay', 'repay'])
})

test('W-01 a crash during a step that must not be repeated: it is not called again, whatever the next worker knows of it', async () => {
  const name = named()
  let calls = 0
  const victim = await openTestBus({ connectionString: bus.connectionString })
  const hung = new Promise(() => undefined)
  victim.hf.handle(`pay ${name}`, () => {
    calls += 1
    return hung
  })
  const Flow = defineWorkflow('test', name)
    .step('begin', name)
    .step('pay', `pay ${name}`, { nonIdempotent: true })
    .build()
  bus.hf.handle(name, () => 1)
  const { id } = await bus.hf.start(Flow)
  await see.untilStep(id, 'begin', 'COMPLETED')
  const worker = await victim.hf.run({ poll: '20ms' })
  await waitFor('it is called', () => calls === 1)
  worker.stopNow()
  // It has recorded `begin`, so that it knows the instance from before the call.
  bus.hf.handle(`pay ${name}`, () => {
    calls += 1
  })
  await see.endLease(id, 'pay')
  expect((await see.until(id, 'FAILED')).error).toMatchObject({ step: 'pay', code: 'OUTCOME_UNKNOWN' })
  expect(calls).toBe(1)
  await victim.close()
})

test('W-05 K-26 a call that a stop has interrupted is made again, and uses up none of the attempts', async () => {
  const name = named()
  const attempts: number[] = []
  const victim = await openTestBus({ connectionString: bus.connectionString })
  victim.hf.handle(`b ${name}`, (_, { attempt }) => {
    attempts.push(attempt)
    return new Promise(() => undefined)
  })
  bus.hf.handle(name, () => 1)
  const Flow = defineWorkflow('test', name)
    .step('a', name)
    .step('b', `b ${name}`, { retry: { maxAttempts: 2, delays: ['1ms'] } })
    .build()
  const { id } = await bus.hf.start(Flow)
  await see.untilStep(id, 'a', 'COMPLETED')
  const worker = await victim.hf.run({ poll: '20ms' })
  await waitFor('it is called', () => attempts.length === 1)
  worker.stopNow()
  bus.hf.handle(`b ${name}`, (_, { attempt }) => {
    attempts.push(attempt)
    throw new Error('no')
  })
  await see.endLease(id, 'b')
  await see.until(id, 'FAILED')
  expect(attempts).toEqual([1, 1, 2])
  await victim.close()
})
