import { gate, numbered, observeWorkflows, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BusinessError } from '../kernel/failure/failure-errors.js'
import { newId } from '../kernel/ids/id.js'
import { defineWorkflow } from './define.js'

let bus: TestBus
let operator: TestBus
let see: ReturnType<typeof observeWorkflows>
beforeAll(async () => {
  bus = await openTestBus()
  // Operators sit elsewhere: nothing that the workers remember may be asked.
  operator = await openTestBus({ connectionString: bus.connectionString })
  see = observeWorkflows(operator)
  await bus.hf.run({ poll: '20ms', concurrency: 8 })
})
afterAll(() => Promise.all([bus.close(), operator.close()]))

const named = numbered('dlq')
const by = { actor: 'ann', reason: 'mended' }
const letters = async (id: string) => (await operator.hf.trouble.list({ id })).items
/** A handler that fails in these steps until it is mended. */
function failing(name: string, ...steps: string[]) {
  const broken = new Set(steps)
  const calls: string[] = []
  bus.hf.handle(name, (input, { stepName, compensation, attempt }) => {
    const what = compensation ?? stepName
    calls.push(`${what} ${attempt}`)
    if (broken.has(what)) throw new BusinessError(`${what} is broken`, { code: 'BROKEN' })
    return { of: stepName, input }
  })
  return { calls, mend: (step: string) => void broken.delete(step) }
}

test('W-09 in DLQ mode nothing is undone: a record says which step failed and why, and the step and the instance wait', async () => {
  const name = named()
  const { calls } = failing(name, 'b')
  const Flow = defineWorkflow('test', name, { version: 2, dlq: true })
    .step('a', name)
    .onFailure('ua', name)
    .step('b', name, { retry: { maxAttempts: 2, delays: ['1ms'] } })
    .onFailure('ub', name)
    .build()
  const { id } = await operator.hf.start(Flow, 7)
  const { error, endedAt } = await see.until(id, 'DLQ')
  expect(error).toMatchObject({ step: 'b', code: 'BROKEN' })
  expect(endedAt).toBeNull()
  expect(calls).toEqual(['a 1', 'b 1'])
  expect(await see.statuses(id)).toEqual({ a: 'COMPLETED', b: 'PAUSED' })
  const [letter, ...more] = await letters(id)
  expect(more).toEqual([])
  expect(letter).toMatchObject({
    model: 'workflows',
    id,
    type: name,
    step: 'b',
    compensating: false,
    kind: 'BUSINESS',
    code: 'BROKEN',
    message: 'b is broken',
    since: expect.any(Date),
  })
  const step = (await operator.hf.workflow(id).steps())[1]
  expect(step).toMatchObject({
    deadLetter: expect.any(String),
    input: { of: 'a', input: 7 },
    queued: null,
    attempts: 1,
  })
  expect((await see.lines(id)).slice(-2)).toEqual(['step_failed b', 'dlq_created b'])
})

test('W-09 a requeue, with another input, starts the step afresh, and the instance completes', async () => {
  const name = named()
  const { calls, mend } = failing(name, 'a')
  const Flow = defineWorkflow('test', name, { dlq: true }).step('a', name, { delay: '20ms' }).step('b', name).build()
  const { id } = await operator.hf.start(Flow, 'bad')
  await see.until(id, 'DLQ')
  mend('a')
  await operator.hf.workflow(id).retry(by, { step: 'a', input: 'good' })
  const { output, error } = await see.until(id, 'COMPLETED')
  expect(error).toBeNull()
  expect(output).toEqual({ of: 'b', input: { of: 'a', input: 'good' } })
  expect(calls).toEqual(['a 1', 'a 1', 'b 1'])
  expect(await letters(id)).toEqual([])
  const requeued = (await operator.hf.workflow(id).history()).find(({ type }) => type === 'dlq_requeued')
  expect(requeued).toMatchObject({ step: 'a', status: 'PENDING', ...by })
  const [step] = await operator.hf.workflow(id).steps()
  expect(step).toMatchObject({ input: 'good', attempts: 1, error: null, deadLetter: null })
})

test('W-09 a requeue in a fork wakes frozen siblings and the join', async () => {
  const name = named()
  const { mend } = failing(name, 'a')
  const running = gate()
  bus.hf.handle(`${name} slow`, () => running.passed.then(() => 'slow'))
  const Flow = defineWorkflow('test', name, { dlq: true })
    .fork(
      'f',
      (b) => b.step('a', name, { delay: '300ms' }),
      (b) => b.step('runs', `${name} slow`).step('after', name),
      (b) => b.step('queued', name, { delay: '1h' }),
    )
    .join('j', 'all')
    .step('last', name)
    .build()
  const { id } = await operator.hf.start(Flow)
  await see.until(id, 'DLQ')
  expect(await see.statuses(id)).toMatchObject({ a: 'PAUSED', runs: 'RUNNING', queued: 'PAUSED', j: 'PENDING' })
  // What runs may finish, and is recorded; what follows it waits.
  running.open()
  await see.untilStep(id, 'after', 'PAUSED')
  expect(await see.statuses(id)).toMatchObject({ runs: 'COMPLETED' })
  mend('a')
  await operator.hf.workflow(id).retry(by)
  await see.until(id, 'COMPLETED')
  expect(await see.statuses(id)).toMatchObject({
    a: 'COMPLETED',
    after: 'COMPLETED',
    queued: 'COMPLETED',
    j: 'COMPLETED',
  })
})

test('W-09 several failed branches are requeued independently, also many at once by their failure', async () => {
  const name = named()
  const { mend } = failing(name, 'a', 'b')
  const Flow = defineWorkflow('test', name, { dlq: true })
    .fork(
      'f',
      (b) => b.step('a', name),
      (b) => b.step('b', name),
    )
    .join('j', 'all')
    .build()
  const { id } = await operator.hf.start(Flow)
  await waitFor('a letter each', async () => (await letters(id)).length > 0)
  // The second may have been frozen by the first; then it fails when it is thawed.
  const other = await operator.hf.start(Flow)
  await see.until(id, 'DLQ')
  await see.until(other.id, 'DLQ')
  mend('a')
  for (let rounds = 0; rounds < 3; rounds += 1) {
    const ofA = (await letters(id)).find(({ step }) => step === 'a')
    if (ofA) await operator.hf.workflow(id).retry(by, { step: 'a' })
    await see.until(id, 'DLQ')
    const steps = await see.statuses(id)
    if (steps.a === 'COMPLETED') break
    const [ofB] = await letters(id)
    await operator.hf.workflow(id).retry(by, { step: ofB?.step ?? '' })
    await waitFor('it fails again', async () => (await letters(id)).some(({ since }) => since > (ofB?.since ?? 0)))
  }
  expect(await see.statuses(id)).toMatchObject({ a: 'COMPLETED', b: 'PAUSED', j: 'PENDING' })
  mend('b')
  for (let rounds = 0; rounds < 3; rounds += 1) {
    for (const group of await operator.hf.trouble.groups({ model: 'workflows', type: name })) {
      const results = await operator.hf.trouble.retry(group, by)
      expect(results.every(({ outcome }) => outcome === 'done')).toBe(true)
    }
    await waitFor('it rests', async () => {
      const { status } = await operator.hf.workflow(other.id).get()
      return status !== 'RUNNING'
    })
  }
  await see.until(id, 'COMPLETED')
  await see.until(other.id, 'COMPLETED')
  expect(await operator.hf.trouble.count({ model: 'workflows', type: name })).toBe(0)
})

test('W-08 a compensation that fails for good leaves a record and the rest still run; its requeue reruns it alone', async () => {
  const name = named()
  const { calls, mend } = failing(name, 'c', 'ub')
  const once = { retry: { maxAttempts: 1 } }
  const Flow = defineWorkflow('test', name)
    .step('a', name)
    .onFailure('ua', name)
    .step('b', name)
    .onFailure('ub', name, { retry: { maxAttempts: 2, delays: ['1ms'] } })
    .step('c', name, once)
    .build()
  const { id } = await operator.hf.start(Flow)
  expect((await see.until(id, 'FAILED')).error).toMatchObject({ step: 'c' })
  expect(await see.statuses(id)).toEqual({ a: 'ROLLED_BACK', b: 'FAILED', c: 'ROLLED_BACK' })
  expect(calls).toEqual(['a 1', 'b 1', 'c 1', 'ub 1', 'ub 2', 'ua 1'])
  const [letter] = await letters(id)
  expect(letter).toMatchObject({ step: 'b', compensating: true, message: 'ub is broken' })
  mend('ub')
  await operator.hf.workflow(id).retry(by, { step: 'b' })
  await see.untilStep(id, 'b', 'ROLLED_BACK')
  expect(calls.slice(6)).toEqual(['ub 1'])
  expect((await operator.hf.workflow(id).get()).status).toBe('FAILED')
  expect(await letters(id)).toEqual([])
})

test('W-09 an unknown record, and one that was requeued already, are refused and change nothing', async () => {
  const name = named()
  const { calls, mend } = failing(name, 'a')
  const { id } = await operator.hf.start(defineWorkflow('test', name, { dlq: true }).step('a', name).build())
  await see.until(id, 'DLQ')
  const old = await letters(id)
  const unknown = newId()
  const dead = operator.hf.workflow(id)
  await expect(operator.hf.workflow(unknown).retry(by)).rejects.toMatchObject({ code: 'HF_NOT_FOUND' })
  await expect(dead.retry(by, { step: 'b' })).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
  await expect(dead.retry({ actor: '', reason: 'x' })).rejects.toMatchObject({ code: 'HF_INVALID_ACTOR' })
  mend('a')
  const twice = await Promise.allSettled([dead.retry(by), bus.hf.workflow(id).retry(by)])
  expect(twice.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
  await see.until(id, 'COMPLETED')
  expect(calls).toEqual(['a 1', 'a 1'])
  expect(await operator.hf.trouble.retry([...old, unknown], by)).toMatchObject([
    { id: unknown, outcome: 'refused', code: 'HF_UNKNOWN_TROUBLE' },
    { id, outcome: 'refused', code: 'HF_NOT_IN_TROUBLE' },
  ])
  expect(calls).toHaveLength(2)
})

test('W-09 the dead letter of a condition is requeued with an input that it can evaluate', async () => {
  const name = named()
  failing(name)
  const Flow = defineWorkflow('test', name, { dlq: true }).condition('c', '{{ gt .n 5 }}').step('a', name).build()
  const { id } = await operator.hf.start(Flow, 'no object')
  await see.until(id, 'DLQ')
  const [letter] = await letters(id)
  expect(letter).toMatchObject({ step: 'c', can: ['retry', 'cancel'] })
  await expect(operator.hf.workflow(id).complete(by, true)).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  await operator.hf.workflow(id).retry(by, { input: { n: 6 } })
  expect((await see.until(id, 'COMPLETED')).output).toEqual({ of: 'a', input: { n: 6 } })
})
