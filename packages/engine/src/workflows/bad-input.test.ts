import { numbered, observeWorkflows, openTestBus, type TestBus } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineWorkflow } from './define.js'

let bus: TestBus
let see: ReturnType<typeof observeWorkflows>
beforeAll(async () => {
  bus = await openTestBus({ abortGrace: '30ms' })
  see = observeWorkflows(bus)
  await bus.hf.run({ poll: '20ms' })
})
afterAll(() => bus.close())

const named = numbered('bad')

const cycle: Record<string, unknown> = {}
cycle.itself = cycle

test.each([
  ['a function', () => () => 1],
  ['a cycle', () => cycle],
  ['more than fits', () => 'x'.repeat(2_000_000)],
  ['a text that PostgreSQL cannot hold', () => 'a\u0000b'],
])('W-05 a handler that returns %s fails for good, with what is wrong, and is called once', async (_, answer) => {
  const name = named()
  let calls = 0
  bus.hf.handle(name, () => {
    calls += 1
    return answer()
  })
  const { id } = await bus.hf.start(defineWorkflow('test', name).step('a', name).build())
  const { error } = await see.until(id, 'FAILED')
  expect(error).toMatchObject({ step: 'a', kind: 'PERMANENT', code: 'OUTPUT_NOT_ENCODABLE' })
  expect(calls).toBe(1)
})

test.each([
  ['a text', 'oops'],
  ['nothing', undefined],
  ['null', null],
  ['an object', { message: 'mine', code: 5 }],
])('W-05 a handler that throws %s instead of an error fails like others', async (_, thrown) => {
  const name = named()
  // oxlint-disable-next-line prefer-promise-reject-errors -- what users do
  bus.hf.handle(name, () => Promise.reject(thrown))
  const Flow = defineWorkflow('test', name)
    .step('a', name, { retry: { maxAttempts: 2, delays: ['1ms'] } })
    .build()
  const { id } = await bus.hf.start(Flow)
  expect((await see.until(id, 'FAILED')).error).toMatchObject({ step: 'a' })
  expect((await bus.hf.workflow(id).steps())[0]).toMatchObject({ attempts: 2 })
})

test('W-01 a handler that never settles has its time, then its signal fires and the attempt has failed', async () => {
  const name = named()
  const reasons: unknown[] = []
  bus.hf.handle(name, (_, { signal, attempt }) => {
    signal.addEventListener('abort', () => reasons.push([attempt, (signal.reason as Error).message]))
    return new Promise(() => undefined)
  })
  const Flow = defineWorkflow('test', name)
    .step('a', name, { timeout: '30ms', retry: { maxAttempts: 2, delays: ['1ms'] } })
    .build()
  const { id } = await bus.hf.start(Flow)
  expect((await see.until(id, 'FAILED')).error).toMatchObject({ step: 'a', code: 'TIMEOUT' })
  const message = expect.stringContaining('longer than 30 ms')
  expect(reasons).toEqual([
    [1, message],
    [2, message],
  ])
})

test.each([
  ['text', 'no object'],
  ['list', [1]],
  ['number', 5],
])(
  'W-06 an input that is a %s where a condition needs an object fails the step, and the instance with it',
  async (_, input) => {
    const name = named()
    const Flow = defineWorkflow('test', name).condition('check', '{{ gt .total 100 }}').step('a', name).build()
    const { id } = await bus.hf.start(Flow, input)
    const { status, error } = await bus.hf.workflow(id).get()
    expect([status, error?.step, error?.kind]).toEqual(['FAILED', 'check', 'PERMANENT'])
    expect(await see.statuses(id)).toEqual({ check: 'ROLLED_BACK' })
  },
)

test('W-14 starts with an invalid option, id, key or time are refused, and nothing is written', async () => {
  const name = named()
  const Flow = defineWorkflow('test', name).step('a', name).build()
  const start = (options: object) => bus.hf.start(Flow, null, options)
  await expect(start({ id: 'nonsense' })).rejects.toMatchObject({ code: 'HF_INVALID_ID' })
  await expect(start({ key: '' })).rejects.toMatchObject({ code: expect.stringMatching(/^HF_INVALID/) })
  await expect(start({ startAt: 'tomorrow' })).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  await expect(start({ colour: 'red' })).rejects.toMatchObject({ code: 'HF_UNKNOWN_OPTION' })
  await expect(bus.hf.start(Flow, () => 1)).rejects.toMatchObject({ code: 'HF_NOT_ENCODABLE' })
  await expect(bus.hf.workflow(Flow, 'k').result({ timeout: '-1s' })).rejects.toMatchObject({
    code: expect.stringMatching(/^HF_INVALID/),
  })
  expect((await bus.hf.workflows.list({ type: name })).items).toEqual([])
})

test('W-04 handlers that are not functions, have no name or exist already are refused', () => {
  const name = named()
  bus.hf.handle(name, () => 1)
  const refused = (code: string, act: () => unknown) => expect(act).toThrow(expect.objectContaining({ code }))
  refused('HF_DUPLICATE_DEFINITION', () => bus.hf.handle(name, () => 1))
  refused('HF_INVALID_OPTION', () => bus.hf.handle('', () => 1))
  // @ts-expect-error no function
  refused('HF_INVALID_OPTION', () => bus.hf.handle('x', 5))
  // @ts-expect-error nothing at all
  refused('HF_INVALID_OPTION', () => bus.hf.handle(null, {}))
  const Flow = defineWorkflow('test', name).step('a', 'ChargeCard').build()
  // @ts-expect-error not one of its handlers
  refused('HF_UNKNOWN_OPTION', () => bus.hf.handle(Flow, { ChargeCrad: () => 1 }))
})
