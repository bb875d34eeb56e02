import {
  numbered,
  observeWorkflows,
  openTestBus,
  runDispatchCycle,
  type TestBus,
  waitFor,
} from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { defineDispatch, workflowTarget } from '../dispatch/index.js'
import { defineWorkflow } from './define.js'

let bus: TestBus
let other: TestBus
let see: ReturnType<typeof observeWorkflows>
beforeAll(async () => {
  bus = await openTestBus({ abortGrace: '30ms' })
  // A program of the same installation that has no definition.
  other = await openTestBus({ connectionString: bus.connectionString })
  see = observeWorkflows(bus)
})
afterAll(async () => {
  await other.close()
  await bus.close()
})

const named = numbered('refund')
const by = { actor: 'ann', reason: 'ticket 7' }
const past = new Date('2020-01-01T00:00:00Z')
const Refund = z.object({ cents: z.int().positive(), currency: z.string().default('EUR') })

/** A workflow that takes a positive amount, and what its handlers were given. */
function refunds() {
  const type = named()
  const paid: unknown[] = []
  const undone: unknown[] = []
  const Flow = defineWorkflow('refunds', type, { input: Refund })
    .step('pay', `pay ${type}`)
    .onFailure('take back', `take back ${type}`)
    .build()
  return { type, Flow, paid, undone }
}

async function work({ type, Flow, paid, undone }: ReturnType<typeof refunds>, program = bus) {
  program.hf.handle(Flow, {
    [`pay ${type}`]: (input: unknown) => {
      paid.push(input)
      return 'paid'
    },
    [`take back ${type}`]: (input: unknown) => void undone.push(input),
  })
  program.hf.register(Flow)
  const worker = await program.hf.run({ poll: '20ms' })
  onTestFinished(async () => void (await worker.stop()))
}

const startFromSql = async (type: string, input: object) =>
  (await bus.sql<{ id: string }>(`select holdfast.start('refunds', $1, $2) as id`, [type, input]))[0]?.id ?? ''

const refused = { step: 'pay', kind: 'PERMANENT', code: 'HF_INVALID_DATA' }

test('K-13 W-14 a start by name is refused at the call where the program has the definition', async () => {
  const flow = refunds()
  await work(flow)
  const start = (input: object) => bus.hf.start(`refunds/${flow.type}`, input)
  await waitFor('the definition is stored', () =>
    start({ cents: 5 }).then(
      () => true,
      () => undefined,
    ),
  )
  await expect(start({ cents: -5 })).rejects.toMatchObject({ code: 'HF_INVALID_DATA' })
  await expect(bus.hf.startMany(`refunds/${flow.type}-v1`, [{ input: { cents: 'x' } }])).rejects.toMatchObject({
    code: 'HF_INVALID_DATA',
  })
  const { items } = await bus.hf.workflows.list({ domain: 'refunds', type: flow.type })
  expect(items.map(({ input }) => input)).toEqual([{ cents: 5, currency: 'EUR' }])
})

test('K-13 U-02 what SQL starts is parsed by the worker: what fits runs as the schema made it', async () => {
  const flow = refunds()
  await work(flow)
  await (await bus.hf.start(flow.Flow, { cents: 1 })).result()
  const id = await startFromSql(flow.type, { cents: 5 })
  expect(await bus.hf.workflow(id).result()).toBe('paid')
  expect(flow.paid).toEqual([
    { cents: 1, currency: 'EUR' },
    { cents: 5, currency: 'EUR' },
  ])
})

test('K-13 U-06 what SQL starts with input that does not fit calls nothing and needs a person', async () => {
  const flow = refunds()
  await work(flow)
  await (await bus.hf.start(flow.Flow, { cents: 1 })).result()
  const id = await startFromSql(flow.type, { cents: -5 })
  expect((await see.until(id, 'DLQ')).error).toMatchObject(refused)
  expect(flow.paid).toHaveLength(1)
  const [record] = (await bus.hf.trouble.list({ domain: 'refunds', type: flow.type })).items
  expect(record).toMatchObject({ id, step: 'pay', code: 'HF_INVALID_DATA', message: expect.stringContaining('cents') })
  expect(await bus.hf.workflow(id).why()).toMatchObject({ reason: 'needsPerson' })
  // The stored input stays what it is, so trying it again can only fail again.
  await expect(bus.hf.workflow(id).retry(by)).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
  expect(await bus.hf.trouble.skip([id], by)).toMatchObject([{ outcome: 'refused', code: 'HF_CANNOT_SKIP' }])
  await expect(bus.hf.workflow(id).retry(by, { input: { cents: 0 } })).rejects.toMatchObject({
    code: 'HF_INVALID_DATA',
  })
  await expect(other.hf.workflow(id).retry(by, { input: { cents: 7 } })).rejects.toThrow('register refunds/')
  await bus.hf.workflow(id).retry(by, { input: { cents: 7 } })
  expect(await bus.hf.workflow(id).result()).toBe('paid')
  expect(flow.paid.slice(1)).toEqual([{ cents: 7, currency: 'EUR' }])
})

test('K-13 W-11 a start whose input was refused can be cancelled, and nothing is undone', async () => {
  const flow = refunds()
  await work(flow)
  await (await bus.hf.start(flow.Flow, { cents: 1 })).result()
  const id = await startFromSql(flow.type, { cents: -5 })
  await see.until(id, 'DLQ')
  await bus.hf.workflow(id).cancel(by)
  await see.until(id, 'CANCELLED')
  expect(flow.undone).toEqual([])
})

test('K-13 W-04 a start that only a worker with the definition can check waits for one, and why says so', async () => {
  const flow = refunds()
  // Stored with its schema by a program that is gone by now.
  const gone = await openTestBus({ connectionString: bus.connectionString })
  await gone.hf.start(flow.Flow, { cents: 1 }, { key: 'first' })
  await gone.close()
  other.hf.handle(`pay ${flow.type}`, (input) => {
    flow.paid.push(input)
    return 'paid'
  })
  const handlersOnly = await other.hf.run({ poll: '20ms' })
  onTestFinished(async () => void (await handlersOnly.stop()))
  expect(await other.hf.workflow(`refunds/${flow.type}`, 'first').result()).toBe('paid')
  const bad = await other.hf.start(`refunds/${flow.type}`, { cents: -5 })
  const good = await other.hf.start(`refunds/${flow.type}`, { cents: 5 })
  expect(await good.why()).toMatchObject({
    reason: 'noWorker',
    text: expect.stringContaining(`the definition refunds/${flow.type}-v1`),
  })
  bus.hf.register(flow.Flow)
  const worker = await bus.hf.run({ poll: '20ms' })
  onTestFinished(async () => void (await worker.stop()))
  expect(await good.result()).toBe('paid')
  expect((await see.until(bad.id, 'DLQ')).error).toMatchObject(refused)
  expect(flow.paid).toEqual([
    { cents: 1, currency: 'EUR' },
    { cents: 5, currency: 'EUR' },
  ])
})

test('K-13 W-14 a workflow without a schema is started by name at once, and by workers that have its handlers only', async () => {
  const type = named()
  await bus.hf.start(
    defineWorkflow('refunds', type).step('pay', `pay ${type}`).build(),
    {},
    { startAt: '2999-01-01T00:00:00Z' },
  )
  const { id } = await other.hf.start(`refunds/${type}`, { cents: -5 })
  expect(await see.statuses(id)).toEqual({ pay: 'PENDING' })
})

test('D-01 K-13 the context of an item is checked with the schema of the workflow when it is scheduled', async () => {
  const { Flow, type } = refunds()
  const Items = defineDispatch('refunds', type, { target: workflowTarget(Flow) })
  const item = { key: 'R-1', context: { cents: -5 }, startAt: past }
  await expect(bus.hf.schedule(Items, item)).rejects.toMatchObject({ code: 'HF_INVALID_DATA' })
  await expect(bus.hf.schedule(Items, [item])).rejects.toMatchObject({ code: 'HF_INVALID_DATA' })
  expect(() => defineDispatch('refunds', 'Twice', { target: workflowTarget(Flow), context: Refund as never })).toThrow(
    /has a schema for it: leave it out/,
  )
})

test('D-08 K-13 an item that SQL has scheduled is checked before its first step, also when it was held back', async () => {
  const flow = refunds()
  const settings = { dispatchInterval: 0, jitterWindow: 0 }
  const Items = defineDispatch('refunds', flow.type, { target: workflowTarget(flow.Flow), settings })
  await bus.hf.schedule(Items, { key: 'R-1', context: { cents: 1 }, startAt: past })
  for (const [key, cents] of [['R-2', -5] as const, ['R-3', 5] as const]) {
    await bus.sql(`select holdfast.schedule('refunds', $1, $2, $3, now() - interval '1 h')`, [
      flow.type,
      key,
      { cents },
    ])
  }
  await runDispatchCycle(bus.db, Items)
  await bus.hf.dispatch.pause(Items, by)
  await bus.hf.dispatch.resume(Items, by)
  await work(flow)
  expect(await bus.hf.item(Items, 'R-1').result()).toBe('paid')
  expect(await bus.hf.item(Items, 'R-3').result()).toBe('paid')
  const bad = await waitFor('it needs a person', async () => {
    const { items } = await bus.hf.workflows.list({ domain: 'refunds', type: flow.type, status: 'DLQ' })
    return items[0]
  })
  expect(bad).toMatchObject({ key: `exec:${Items.name}:R-2:0`, error: refused })
  expect(flow.paid).toHaveLength(2)
  expect(flow.paid).toEqual(expect.arrayContaining([{ cents: 5, currency: 'EUR' }]))
})
