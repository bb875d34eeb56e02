import { numbered, openTestBus, runDispatchCycle, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { BusinessError } from '../kernel/failure/failure-errors.js'
import { defineWorkflow } from '../workflows/index.js'
import { defineDispatch } from './define.js'
import type { DispatchSettings } from './settings.js'
import { workflowTarget } from './targets/workflow.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'ticket 7' }
const named = numbered('payout')
const past = new Date('2020-01-01T00:00:00Z')
const quick: DispatchSettings = { dispatchInterval: 0, jitterWindow: 0 }

/** A type of items whose executions are a workflow of one step after a condition; what it does is the test's. */
async function payouts(pay: (input: unknown) => unknown, options: { dlq?: boolean; config?: DispatchSettings } = {}) {
  const name = named()
  const Flow = defineWorkflow('test', name, { dlq: options.dlq ?? false })
    .condition('large', '{{ gt .cents 0 }}')
    .step('pay', `pay ${name}`, { retry: { maxAttempts: 1 } })
    .build()
  bus.hf.handle(`pay ${name}`, pay)
  const Payout = defineDispatch(name, 'Items', {
    target: workflowTarget(Flow),
    context: z.object({ cents: z.number() }),
    settings: { ...quick, ...options.config },
  })
  const until = (key: string, status: string) =>
    waitFor(`${key} is ${status}`, async () => {
      const item = await bus.hf.item(Payout, key).get()
      return item.status === status ? item : undefined
    })
  const work = async () => {
    const worker = await bus.hf.run({ domains: [], workflows: true, poll: '20ms', concurrency: 50 })
    onTestFinished(async () => void (await worker.stop()))
  }
  return { name, Flow, Payout, until, work }
}

test('D-05 a batch of items becomes workflow instances in one statement; each gets its context, and ends its item', async () => {
  const paid: unknown[] = []
  const { name, Payout, until, work } = await payouts((input) => paid.push(input))
  const items = Array.from({ length: 20 }, (_, n) => ({ key: `P-${n}`, context: { cents: n }, startAt: past }))
  await bus.hf.schedule(Payout, items)
  await runDispatchCycle(bus.db, Payout)
  expect((await bus.hf.workflows.list({ type: name, status: 'PENDING' })).items).toHaveLength(20)
  await work()
  for (const { key } of items) await until(key, 'COMPLETED')
  // The condition is false of the first.
  expect(paid).toHaveLength(19)
  const [first] = (await bus.hf.workflows.list({ type: name, key: `exec:${Payout.name}:P-7:0` })).items
  expect(first).toMatchObject({ status: 'COMPLETED', input: { cents: 7 } })
  expect(await bus.sql('select from holdfast.dispatch_context where item_type = $1', [Payout.name])).toHaveLength(0)
})

test('D-06 an instance that failed and was undone, was cancelled or aborted fails its item for good; in the DLQ it stays dispatched', async () => {
  const refuse = () => {
    throw new BusinessError('no such account', { code: 'NO_ACCOUNT' })
  }
  const undone = await payouts(refuse)
  const frozen = await payouts(refuse, { dlq: true })
  for (const { Payout } of [undone, frozen]) {
    await bus.hf.schedule(Payout, { key: 'P-1', context: { cents: 1 }, startAt: past })
    await bus.hf.schedule(Payout, { key: 'P-2', context: { cents: 1 }, startAt: past })
    await runDispatchCycle(bus.db, Payout)
  }
  const [second] = (await bus.hf.workflows.list({ type: undone.Flow.type, key: `exec:${undone.name}/Items:P-2:0` }))
    .items
  await bus.hf.workflow(second?.id ?? '').cancel(by)
  expect(await undone.until('P-2', 'FAILED')).toMatchObject({ lastError: 'CANCELLED: the workflow ended CANCELLED' })
  await undone.work()
  expect(await undone.until('P-1', 'FAILED')).toMatchObject({ lastError: 'NO_ACCOUNT: no such account', retryCount: 0 })
  await waitFor(
    'both are in the DLQ',
    async () => (await bus.hf.workflows.list({ type: frozen.Flow.type, status: 'DLQ' })).items.length === 2,
  )
  const [stuck] = (await bus.hf.workflows.list({ type: frozen.Flow.type, key: `exec:${frozen.name}/Items:P-1:0` }))
    .items
  expect(await bus.hf.item(frozen.Payout, 'P-1').get()).toMatchObject({ status: 'DISPATCHED' })
  await bus.hf.workflow(stuck?.id ?? '').cancel(by, { compensate: false })
  await frozen.until('P-1', 'FAILED')
})

test('D-04 no instance begins before its time, and the kill switch holds back those that were started ahead', async () => {
  const paid: string[] = []
  const { name, Payout, until, work } = await payouts(() => paid.push('paid'), { config: { preStartBuffer: '60m' } })
  const [now] = await bus.sql<{ at: Date }>('select holdfast.now() as at')
  const startAt = new Date((now?.at.getTime() ?? 0) + 1_800_000)
  const items = ['P-1', 'P-2', 'P-3'].map((key) => ({ key, context: { cents: 1 }, startAt }))
  await bus.hf.schedule(Payout, items)
  await runDispatchCycle(bus.db, Payout)
  await work()
  const roots = () =>
    bus.sql<{ due_at: Date | null }>(
      `select due_at from holdfast.workflow_step join holdfast.workflow on id = workflow_id where number = -1 and workflow.name = $1`,
      [`test/${name}`],
    )
  expect((await roots()).map(({ due_at }) => due_at)).toEqual([startAt, startAt, startAt])
  await bus.hf.dispatch.pause(Payout, by)
  expect((await roots()).map(({ due_at }) => due_at)).toEqual([null, null, null])
  await bus.moveClock(1_900_000)
  // Everything that is due by then is taken by the same worker.
  const other = await payouts(() => 'probe')
  await (await bus.hf.start(other.Flow, { cents: 1 })).result()
  expect(paid).toEqual([])
  await bus.hf.dispatch.resume(Payout, by)
  for (const { key } of items) await until(key, 'COMPLETED')
  expect(paid).toHaveLength(3)
})

test('D-02 D-07 an operator may name another workflow, or a version; one that is not stored is refused; an execution is made once', async () => {
  const { name, Payout, until, work } = await payouts(() => 1)
  const Other = defineWorkflow('test', `${name}-other`, { version: 2 }).step('a', `other ${name}`).build()
  bus.hf.handle(`other ${name}`, () => 'other')
  await bus.hf.schedule(Payout, { key: 'P-1', context: { cents: 1 }, startAt: past })
  await expect(
    bus.hf.dispatch.configure(Payout, { execWorkflowType: `test/${name}-other-v2` }, by),
  ).rejects.toMatchObject({
    code: 'HF_INVALID_OPTION',
  })
  await bus.hf.start(Other, {}, { startAt: new Date('2999-01-01') })
  await bus.hf.dispatch.configure(Payout, { execWorkflowType: `test/${name}-other-v2` }, by)
  await runDispatchCycle(bus.db, Payout)
  await work()
  await until('P-1', 'COMPLETED')
  const [instance] = (await bus.hf.workflows.list({ type: `${name}-other`, key: `exec:${Payout.name}:P-1:0` })).items
  expect(instance).toMatchObject({ version: 2, output: 'other' })
  // Undone by hand: the next release finds the execution that is there.
  await bus.sql(
    `update holdfast.dispatch_item set status = 'READY', due_at = holdfast.now(), completed_at = null where item_type = $1`,
    [Payout.name],
  )
  await bus.sql(
    `insert into holdfast.dispatch_context (item_type, item_id, context, context_version, checked, created_at, updated_at)
     values ($1, 'P-1', '{"cents": 1}', 1, true, now(), now())`,
    [Payout.name],
  )
  await runDispatchCycle(bus.db, Payout)
  await until('P-1', 'COMPLETED')
  expect((await bus.hf.workflows.list({ type: `${name}-other`, status: 'COMPLETED' })).items).toHaveLength(1)
})

test('D-08 bad input: no workflow, a context that does not fit, a context that is gone', async () => {
  expect(() => workflowTarget({ name: 'x' } as never)).toThrow(/must be a built workflow/)
  const { Payout } = await payouts(() => 1, { config: { maxDispatchRetries: 1 } })
  const wrong = { key: 'P-1', context: { cents: 'many' }, startAt: past }
  await expect(bus.hf.schedule(Payout, wrong as never)).rejects.toMatchObject({ code: 'HF_INVALID_DATA' })
  await bus.hf.schedule(Payout, { key: 'P-2', context: { cents: 1 }, startAt: past })
  await bus.sql('delete from holdfast.dispatch_context where item_type = $1', [Payout.name])
  await runDispatchCycle(bus.db, Payout)
  expect(await bus.hf.item(Payout, 'P-2').get()).toMatchObject({ status: 'DEAD_LETTER' })
})
