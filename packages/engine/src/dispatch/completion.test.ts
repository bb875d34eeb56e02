import { gate, numbered, openTestBus, runDispatchCycle, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { BusinessError, PermanentError } from '../kernel/failure/failure-errors.js'
import { defineProcess, type ProcessContext, type ProcessDefinition } from '../processes/index.js'
import { defineDispatch } from './define.js'
import type { DispatchSettings } from './settings.js'
import { processTarget } from './targets/process.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'ticket 7' }
const domain = numbered('ending')
const past = new Date('2020-01-01T00:00:00Z')
const contextOf = (type: string) => bus.sql('select from holdfast.dispatch_context where item_type = $1', [type])

/** One item, released, whose execution does this; with a worker. */
async function released(
  execute: (ctx: ProcessContext) => Promise<unknown>,
  options: object = {},
  config: DispatchSettings = {},
) {
  const name = domain()
  const Pay = defineProcess(name, 'Pay', { state: z.object({}), execute, ...options })
  const Settlement = defineDispatch(name, 'Items', {
    target: processTarget(Pay),
    settings: { dispatchInterval: 0, jitterWindow: 0, ...config },
  })
  await bus.hf.schedule(Settlement, { key: 'PAY-1', context: {}, startAt: past })
  await runDispatchCycle(bus.db, Settlement)
  const worker = await bus.runProcesses(Pay)
  const get = () => bus.hf.item(Settlement, 'PAY-1').get()
  const until = (status: string) =>
    waitFor(`the item is ${status}`, async () => {
      const item = await get()
      return item.status === status ? item : undefined
    })
  return { Pay: Pay as ProcessDefinition, Settlement, key: `exec:${Settlement.name}:PAY-1:0`, worker, get, until }
}

test('D-06 completed: the item is COMPLETED in the same transaction, and its context is gone', async () => {
  const inside = gate()
  const { Settlement, until, get, worker } = await released(async () => inside.passed)
  expect(await get()).toMatchObject({ status: 'DISPATCHED', context: {} })
  inside.open()
  const item = await until('COMPLETED')
  expect(item.completedAt).toBeInstanceOf(Date)
  expect(item).toMatchObject({ context: undefined, retryCount: 0, lastError: null })
  expect(await contextOf(Settlement.name)).toHaveLength(0)
  const [both] = await bus.sql<{ same: boolean }>(
    `select ended_at = completed_at as same from holdfast.process_detail, holdfast.dispatch_item
     where key = execution_id and item_type = $1`,
    [Settlement.name],
  )
  expect(both).toEqual({ same: true })
  await worker.stop()
})

test('D-06 compensated: FAILED for good, counted and on record, and its context is gone', async () => {
  const undone: string[] = []
  const { Settlement, until, worker } = await released(async (ctx) => {
    await ctx.step('book', () => 'r1', { compensate: () => void undone.push('book') })
    throw new BusinessError('declined', { code: 'DECLINED' })
  })
  const item = await until('FAILED')
  expect(undone).toEqual(['book'])
  expect(item).toMatchObject({ lastError: 'DECLINED: declined', context: undefined })
  expect(await contextOf(Settlement.name)).toHaveLength(0)
  expect(await bus.hf.auditTrail({ name: `${Settlement.name}/PAY-1` })).toMatchObject([
    { event: 'FAILED', before: { status: 'DISPATCHED' }, after: { status: 'FAILED' } },
  ])
  await worker.stop()
})

test('D-06 cancelled: FAILED for good', async () => {
  const { Pay, key, until, worker } = await released((ctx) => ctx.sleep('long', '1h'))
  await waitFor('it sleeps', async () => (await bus.hf.process(Pay, key).get()).status === 'WAITING_FOR_ASYNC')
  await bus.hf.process(Pay, key).cancel(by, { compensate: false })
  expect(await until('FAILED')).toMatchObject({ lastError: 'CANCELLED: the process ended CANCELLED' })
  await worker.stop()
})

test('D-06 past its deadline: FAILED for good, because another execution would be late too', async () => {
  const { until, worker } = await released((ctx) => ctx.sleep('long', '1h'), {
    deadline: () => 50,
    deadlineAction: 'fail',
  })
  expect(await until('FAILED')).toMatchObject({ lastError: expect.stringContaining('DEADLINE_EXCEEDED') })
  await worker.stop()
})

test('D-06 failed technically: READY again with its count raised, and the next execution has a new id (D-07)', async () => {
  const { Settlement, key, until, worker } = await released((ctx) =>
    ctx.wait('answer', () => false, { timeout: 10, onTimeout: 'fail' }),
  )
  const item = await until('READY')
  expect(item).toMatchObject({ retryCount: 1, lastError: expect.stringContaining('TIMEOUT'), context: {} })
  expect(item.dueAt?.getTime()).toBeGreaterThan(item.updatedAt.getTime())
  await bus.sql('update holdfast.dispatch_item set due_at = exec_time where item_type = $1', [Settlement.name])
  await runDispatchCycle(bus.db, Settlement)
  expect((await bus.hf.item(Settlement, 'PAY-1').get()).executionId).toBe(key.replace(/0$/, '1'))
  await worker.stop()
})

test('D-06 in troubleshooting it is still DISPATCHED; an operator who completes the process completes the item', async () => {
  const { Pay, key, get, until, worker } = await released(async () => {
    throw new PermanentError('no such account')
  })
  await waitFor(
    'it is in troubleshooting',
    async () => (await bus.hf.process(Pay, key).get()).status === 'WAITING_FOR_TSQ',
  )
  expect(await get()).toMatchObject({ status: 'DISPATCHED', retryCount: 0 })
  await bus.hf.process(Pay, key).complete(by)
  await until('COMPLETED')
  await worker.stop()
})

test('D-06 P-16 a refused payment whose compensation was done by hand is FAILED, not COMPLETED', async () => {
  const { Pay, key, until, worker } = await released(async (ctx) => {
    await ctx.step('hold', () => 1, {
      compensateRetry: { maxAttempts: 1 },
      compensate: () => {
        throw new PermanentError('cannot release it')
      },
    })
    throw new BusinessError('no money', { code: 'NO_MONEY' })
  })
  await waitFor(
    'it is in troubleshooting',
    async () => (await bus.hf.process(Pay, key).get()).status === 'WAITING_FOR_TSQ',
  )
  await bus.hf.process(Pay, key).complete(by)
  expect(await until('FAILED')).toMatchObject({ lastError: expect.stringContaining('NO_MONEY') })
  await worker.stop()
})

test('D-06 retried from troubleshooting, the item ends as the process does', async () => {
  let broken = true
  const { Pay, key, until, worker } = await released(async (ctx) => {
    await ctx.step('pay', () => {
      if (broken) throw new PermanentError('no such account')
    })
  })
  await waitFor(
    'it is in troubleshooting',
    async () => (await bus.hf.process(Pay, key).get()).status === 'WAITING_FOR_TSQ',
  )
  broken = false
  await bus.hf.process(Pay, key).retry(by)
  await until('COMPLETED')
  await worker.stop()
})

test('D-06 beyond the limit an item is a dead letter: listed, counted, grouped, and requeued by an operator', async () => {
  let works = false
  const { Settlement, until, worker } = await released(
    async (ctx) => {
      if (!works) await ctx.wait('answer', () => false, { timeout: 10, onTimeout: 'fail' })
    },
    {},
    { maxDispatchRetries: 2 },
  )
  await until('READY')
  await bus.sql('update holdfast.dispatch_item set due_at = exec_time where item_type = $1', [Settlement.name])
  await runDispatchCycle(bus.db, Settlement)
  const item = await until('DEAD_LETTER')
  // Not ready and invisible for ever: it is in no queue, and in every list.
  expect(item).toMatchObject({ retryCount: 2, dueAt: null, context: {} })
  const { name: itemType } = Settlement
  const { trouble } = bus.hf
  const ofType = { model: 'dispatch', domain: Settlement.domain, type: Settlement.type } as const
  const [group] = await trouble.groups(ofType)
  expect(group).toMatchObject({ type: Settlement.type, count: 1 })
  const { items: dead } = await trouble.list({ ...ofType, fingerprint: group?.fingerprint ?? '' })
  expect(dead).toMatchObject([{ key: 'PAY-1', attempts: 2, code: expect.any(String) }])
  works = true
  expect(await trouble.retry(dead, by)).toMatchObject([{ model: 'dispatch', id: 'PAY-1', outcome: 'done' }])
  expect(await until('READY')).toMatchObject({ retryCount: 0 })
  expect(await trouble.count(ofType)).toBe(0)
  await runDispatchCycle(bus.db, Settlement)
  await until('COMPLETED')
  expect(await trouble.retry(dead, by)).toMatchObject([{ id: 'PAY-1', code: 'HF_NOT_IN_TROUBLE' }])
  const trail = await bus.hf.auditTrail({ name: `${itemType}/PAY-1` })
  expect(trail.map(({ event, actor }) => [event, actor])).toEqual([
    ['EXECUTION_FAILED', null],
    ['EXECUTION_FAILED', null],
    ['REQUEUED', 'ann'],
  ])
  await worker.stop()
})

test('D-06 dead letters are retried by failure group, or all of a type', async () => {
  const Pay = defineProcess(domain(), 'Pay', { state: z.object({}), execute: async () => undefined })
  const Settlement = defineDispatch(domain(), 'Items', {
    target: processTarget(Pay),
    settings: { dispatchInterval: 0, jitterWindow: 0, maxDispatchRetries: 1 },
  })
  const items = ['a', 'b', 'c', 'd'].map((key) => ({ key, context: {}, startAt: past }))
  await bus.hf.schedule(Settlement, items)
  await bus.hf.start(Pay, {}, { immediate: false, key: `exec:${Settlement.name}:d:0` })
  await bus.sql(`delete from holdfast.dispatch_context where item_type = $1 and item_id <> 'd'`, [Settlement.name])
  await runDispatchCycle(bus.db, Settlement)
  const ofType = { model: 'dispatch', domain: Settlement.domain, type: Settlement.type } as const
  const groups = await bus.hf.trouble.groups(ofType)
  expect(groups.map(({ code, count }) => [code, count])).toEqual([
    ['CONTEXT_MISSING', 3],
    ['EXECUTION_ID_TAKEN', 1],
  ])
  expect(await bus.hf.trouble.retry({ ...ofType, fingerprint: groups[1]?.fingerprint ?? '' }, by)).toMatchObject([
    { model: 'dispatch', id: 'd', outcome: 'done' },
  ])
  expect(await bus.hf.item(Settlement, 'd').get()).toMatchObject({ status: 'READY', retryCount: 0 })
  expect(await bus.hf.trouble.retry(ofType, by)).toHaveLength(3)
})

test('D-06 the end of an execution changes neither another execution’s item nor an item that is not DISPATCHED', async () => {
  const Pay = defineProcess(domain(), 'Pay', { state: z.object({}), execute: async () => undefined })
  const Settlement = defineDispatch(domain(), 'Items', { target: processTarget(Pay) })
  const { name: itemType } = Settlement
  await bus.hf.schedule(Settlement, { key: 'x', context: {}, startAt: past })
  const end = (execution: string) =>
    bus.sql(
      `select holdfast.end_dispatched(array[$1], array['x'], array[$2], array['COMPLETED'], array['-'], array['-'])`,
      [itemType, execution],
    )
  await end(`exec:${itemType}:x:0`)
  expect(await bus.hf.item(Settlement, 'x').get()).toMatchObject({ status: 'READY' })
  await runDispatchCycle(bus.db, Settlement)
  await end(`exec:${itemType}:x:1`)
  expect(await bus.hf.item(Settlement, 'x').get()).toMatchObject({ status: 'DISPATCHED' })
  await end(`exec:${itemType}:x:0`)
  expect(await bus.hf.item(Settlement, 'x').get()).toMatchObject({ status: 'COMPLETED' })
})
