import { numbered, observeWorkflows, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BusinessError } from '../kernel/failure/failure-errors.js'
import { defineWorkflow } from './define.js'
import type { WorkflowHooks } from './hooks.js'

let bus: TestBus
let see: ReturnType<typeof observeWorkflows>
beforeAll(async () => {
  bus = await openTestBus({ abortGrace: '100ms' })
  see = observeWorkflows(bus)
  await bus.hf.run({ poll: '20ms' })
})
afterAll(() => bus.close())

const named = numbered('hooks')
const once = { retry: { maxAttempts: 1 } }

/** Hooks that note what they hear of one workflow, one line each. */
function noting(name: string) {
  const heard: string[] = []
  const note =
    (what: string) =>
    (it: { workflow: string; step?: string; attempt?: number; status?: string; error?: { code: string } }) => {
      if (it.workflow !== `test/${name}`) return
      heard.push([what, it.step, it.attempt, it.status, it.error?.code].filter((part) => part !== undefined).join(' '))
    }
  const hooks: WorkflowHooks = {
    workflowStarting: note('starting'),
    workflowCompleted: note('completed'),
    workflowFailed: note('failed'),
    stepStarting: note('step starting'),
    stepCompleted: note('step completed'),
    stepFailed: note('step failed'),
  }
  return { heard, hooks }
}

test('W-15 hooks are called for starts, ends and failures of workflows and steps', async () => {
  const name = named()
  bus.hf.handle(name, (_, { stepName, attempt }) => {
    if (stepName === 'b') throw new BusinessError('no', { code: 'DECLINED' })
    if (attempt === 1) throw new Error('not yet')
  })
  const { heard, hooks } = noting(name)
  const remove = bus.hf.workflows.use(hooks)
  const good = await bus.hf.start(
    defineWorkflow('test', name)
      .step('a', name, { retry: ['1ms'] })
      .build(),
  )
  await see.until(good.id, 'COMPLETED')
  const bad = await bus.hf.start(defineWorkflow('test', name, { version: 2 }).step('b', name).build())
  await see.until(bad.id, 'FAILED')
  await waitFor('all is heard', () => heard.length === 9)
  expect(heard).toEqual([
    'starting',
    'step starting a 1',
    'step starting a 2',
    'step completed a 2',
    'completed',
    'starting',
    'step starting b 1',
    'step failed b 1 DECLINED',
    'failed FAILED DECLINED',
  ])
  remove()
  await bus.hf.start(`test/${name}-v2`)
  expect(heard).toHaveLength(9)
})

test('W-15 hooks are called for an instance that ends with its start', async () => {
  const name = named()
  const { heard, hooks } = noting(name)
  const remove = bus.hf.workflows.use(hooks)
  await bus.hf.start(defineWorkflow('test', name).condition('c', '{{ eq 1 2 }}').step('a', name).build())
  await waitFor('it is heard', () => heard.length === 2)
  expect(heard).toEqual(['starting', 'completed'])
  remove()
})

test('W-15 a start hook vetoes: nothing is written, and the refusing hook is named', async () => {
  const name = named()
  const remove = bus.hf.workflows.use({
    name: 'budget',
    async workflowStarting({ workflow, input }) {
      if (workflow === `test/${name}` && input === 'too much') throw new Error('no money left')
    },
  })
  const Flow = defineWorkflow('test', name).step('a', name).build()
  await expect(bus.hf.start(Flow, 'too much')).rejects.toMatchObject({
    code: 'HF_START_VETOED',
    message: expect.stringMatching(/budget.*no money left/),
  })
  expect((await bus.hf.workflows.list({ type: name })).items).toEqual([])
  await bus.hf.start(Flow, 'little')
  remove()
})

test('W-15 a step hook vetoes: that attempt fails, and the handler is not called', async () => {
  const name = named()
  let calls = 0
  bus.hf.handle(name, () => {
    calls += 1
  })
  const remove = bus.hf.workflows.use({
    stepStarting({ workflow, attempt }) {
      if (workflow === `test/${name}` && attempt === 1) throw new Error('not now')
    },
  })
  const Flow = defineWorkflow('test', name)
    .step('a', name, { retry: ['1ms'] })
    .build()
  const { id } = await bus.hf.start(Flow)
  await see.until(id, 'COMPLETED')
  expect(calls).toBe(1)
  const retry = (await bus.hf.workflow(id).history()).find(({ type }) => type === 'step_retry')
  expect(retry).toMatchObject({ step: 'a', attempts: 1, error: { message: 'not now' } })
  remove()
})

test('W-15 a step hook that never returns is limited by the time limit of the step', async () => {
  const name = named()
  bus.hf.handle(name, () => 'called')
  const remove = bus.hf.workflows.use({
    stepStarting: ({ workflow, attempt }) =>
      workflow === `test/${name}` && attempt === 1 ? new Promise<void>(() => undefined) : undefined,
  })
  const Flow = defineWorkflow('test', name)
    .step('a', name, { timeout: '50ms', retry: ['1ms'] })
    .build()
  expect(await (await bus.hf.start(Flow)).result()).toBe('called')
  remove()
})

test('K-23 a hook that never returns blocks neither a start nor a slot: it has a time limit of its own', async () => {
  const name = named()
  bus.hf.handle(name, () => 'called')
  const hang = new Promise<void>(() => undefined)
  const Flow = defineWorkflow('test', name)
    .step('a', name, { retry: ['1ms'] })
    .onFailure('undo a', name)
    .build()
  const starting = bus.hf.workflows.use({ name: 'slow', timeout: '50ms', workflowStarting: () => hang })
  await expect(bus.hf.start(Flow)).rejects.toMatchObject({
    code: 'HF_START_VETOED',
    message: expect.stringMatching(/slow.*longer than 50 ms/),
  })
  starting()
  const stepStarting = bus.hf.workflows.use({ timeout: '50ms', stepStarting: () => hang })
  const { id } = await bus.hf.start(Flow)
  expect((await see.until(id, 'FAILED')).error).toMatchObject({ step: 'a', code: 'TIMEOUT' })
  // K-19: the handler was never called, so there is nothing to undo.
  expect(await see.statuses(id)).toEqual({ a: 'FAILED' })
  stepStarting()
  // @ts-expect-error no duration
  expect(() => bus.hf.workflows.use({ timeout: 'long' })).toThrow(/timeout/)
})

test('W-15 a hook that throws after an end changes nothing', async () => {
  const name = named()
  bus.hf.handle(name, (_, { stepName }) => {
    if (stepName === 'b') throw new BusinessError('no')
  })
  const fails = () => {
    throw new Error('a bad hook')
  }
  const remove = bus.hf.workflows.use({
    stepCompleted: fails,
    stepFailed: async () => fails(),
    workflowFailed: fails,
    workflowCompleted: async () => fails(),
  })
  const { id } = await bus.hf.start(defineWorkflow('test', name).step('a', name).step('b', name, once).build())
  await see.until(id, 'FAILED')
  expect(await see.statuses(id)).toEqual({ a: 'ROLLED_BACK', b: 'ROLLED_BACK' })
  remove()
})

test('W-15 invalid hooks are refused', () => {
  // @ts-expect-error no function
  expect(() => bus.hf.workflows.use({ stepCompleted: 5 })).toThrow(/stepCompleted.*must be a function/)
  // @ts-expect-error no such hook
  expect(() => bus.hf.workflows.use({ stepComplete: () => undefined })).toThrow(/stepCompleted/)
})
