import { numbered, observeWorkflows, openTestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineCommand } from '../commands/index.js'
import { BusinessError, PermanentError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from '../processes/index.js'
import { defineWorkflow } from '../workflows/index.js'
import { by } from './trouble.fixture.js'

// Calls that must not be made twice. The bank may have paid, and then the connection broke.

const bus = await openTestBus()
afterAll(() => bus.close())
await bus.hf.run({ poll: '20ms' })
const { hf } = bus
const see = observeWorkflows(bus)
const named = numbered('unknown')

/** One of each model whose call was lost. The second call pays. */
async function lostCalls() {
  const type = named()
  const calls: string[] = []
  const pay = (who: string) => {
    calls.push(who)
    if (calls.filter((call) => call === who).length === 1) throw new Error('read ECONNRESET')
    return 'paid'
  }
  const Pay = defineCommand(type, type, { data: z.string(), atMostOnce: true })
  hf.handle(Pay, () => pay('command'))
  const Payment = defineProcess(type, type, {
    state: z.string(),
    execute: (ctx) => ctx.step('pay', () => pay('process'), { atMostOnce: true }),
  })
  hf.register(Payment)
  hf.handle(`${type}.pay`, () => pay('workflow'))
  const Order = defineWorkflow('test', type, { dlq: true }).step('pay', `${type}.pay`, { nonIdempotent: true }).build()
  await hf.send(Pay, 'x')
  const process = await hf.start(Payment, 'x')
  const workflow = await hf.start(Order, 'x')
  await waitFor('they need a person', async () => (await hf.trouble.count({ type })) === 3)
  return { type, calls, process: process.id, workflow: workflow.id }
}

test('U-06 K-20 the list says that the outcome is unknown, and a plain retry of what cannot be inquired about is refused', async () => {
  const { type, calls } = await lostCalls()
  const { items } = await hf.trouble.list({ type })
  const found = items.toSorted((a, b) => a.model.localeCompare(b.model))
  expect(found.map(({ model, code, outcomeUnknown }) => [model, code, outcomeUnknown])).toEqual([
    ['commands', 'OUTCOME_UNKNOWN', true],
    ['processes', 'OUTCOME_UNKNOWN', true],
    ['workflows', 'OUTCOME_UNKNOWN', true],
  ])
  const results = await hf.trouble.retry({ type, model: ['commands', 'processes'] }, by)
  const refused = results.toSorted((a, b) => `${a.model}`.localeCompare(`${b.model}`))
  expect(refused.map(({ model, outcome, code }) => [model, outcome, code])).toEqual([
    ['commands', 'refused', 'HF_CALL_OUTCOME_UNKNOWN'],
    ['processes', 'refused', expect.stringContaining('HF_')],
  ])
  expect(calls).toHaveLength(3)
})

test('U-06 K-20 a retry with notDone makes the calls again in every model', async () => {
  const { type, calls, process, workflow } = await lostCalls()
  const results = await hf.trouble.retry({ type }, by, { notDone: true })
  expect(results.map(({ outcome }) => outcome)).toEqual(['done', 'done', 'done'])
  expect((await bus.rests(process, 'COMPLETED')).result).toBe('paid')
  expect((await see.until(workflow, 'COMPLETED')).output).toBe('paid')
  await waitFor('all were called again', () => calls.length === 6)
  expect(await hf.trouble.count({ type })).toBe(0)
  const retried = (await hf.auditTrail({ id: process })).find(({ event }) => event === 'TSQ_RETRY')
  expect(retried).toMatchObject({ actor: 'ann', after: { notDone: true } })
})

test('U-06 K-20 complete says that it was done: no call is made again', async () => {
  const { type, calls, process, workflow } = await lostCalls()
  const results = await hf.trouble.complete({ type }, by, { result: 'seen at the bank' })
  expect(results.map(({ outcome }) => outcome)).toEqual(['done', 'done', 'done'])
  expect((await bus.rests(process, 'COMPLETED')).result).toBe('seen at the bank')
  expect((await see.until(workflow, 'COMPLETED')).output).toBe('seen at the bank')
  expect(calls).toHaveLength(3)
})

test.each([
  ['refused', new PermanentError('closed', { code: 'CLOSED' }), []],
  ['of unknown outcome', new Error('read ECONNRESET'), ['process undone: unknown', 'workflow undone: unknown']],
])(
  'U-06 K-19 what was skipped after a call was %s is undone by what is known of its effect',
  async (_, failure, undone) => {
    const type = named()
    const calls: string[] = []
    const pay = () => {
      throw failure
    }
    const decline = () => {
      throw new BusinessError('sold out', { code: 'SOLD_OUT' })
    }
    const Payment = defineProcess(type, type, {
      state: z.string(),
      async execute(ctx) {
        await ctx.step('pay', pay, {
          compensate: (result, { outcome }) => void calls.push(`process undone: ${outcome}${result ?? ''}`),
        })
        await ctx.step('ship', decline)
      },
    })
    hf.register(Payment)
    hf.handle(`${type}.pay`, pay)
    hf.handle(`${type}.refund`, (_input, { outcome, output }) => {
      calls.push(`workflow undone: ${outcome}${output ? JSON.stringify(output) : ''}`)
    })
    hf.handle(`${type}.ship`, decline)
    const Order = defineWorkflow('test', type, { dlq: true, retry: { maxAttempts: 1 } })
      .step('pay', `${type}.pay`)
      .onFailure('refund', `${type}.refund`)
      .step('ship', `${type}.ship`)
      .build()
    const process = await hf.start(Payment, 'x')
    const workflow = await hf.start(Order, 'x')
    await waitFor('they need a person', async () => (await hf.trouble.count({ type })) === 2)
    expect((await hf.trouble.skip({ type }, by)).map(({ outcome }) => outcome)).toEqual(['done', 'done'])
    await bus.rests(process.id, 'COMPENSATED')
    await waitFor('its second step needs a person', async () => (await hf.trouble.count({ type })) === 1)
    await hf.workflow(workflow.id).cancel(by)
    await see.until(workflow.id, 'CANCELLED')
    expect(calls.toSorted()).toEqual(undone)
  },
)
