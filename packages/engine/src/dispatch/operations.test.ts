import { endsWithin, numbered, openTestBus, runDispatchCycle, type TestBus, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import type { BulkResult } from '../kernel/model/bulk.js'
import { defineProcess } from '../processes/index.js'
import { defineWorkflow } from '../workflows/index.js'
import { type DispatchDefinition, defineDispatch } from './define.js'
import type { DispatchSettings } from './settings.js'
import { processTarget } from './targets/process.js'
import { workflowTarget } from './targets/workflow.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'ticket 7' }
const name = numbered('operate')
const past = new Date('2020-01-01T00:00:00Z')
const four = new Date('2031-01-31T16:00:00Z')

function settlement(config: DispatchSettings = {}) {
  const domain = name()
  const Settle = defineProcess(domain, 'Settle', {
    state: z.object({ n: z.number() }),
    execute: async (ctx) => {
      await ctx.wait('for ever', () => false, { timeout: '1d' })
    },
  })
  const Settlement = defineDispatch(domain, 'Items', {
    target: processTarget(Settle),
    settings: { dispatchInterval: 0, jitterWindow: 0, maxDispatchRetries: 1, ...config },
  })
  return { Settle, Settlement, domain }
}

const items = (count: number, startAt = four) =>
  Array.from({ length: count }, (_, n) => ({ key: `PAY-${n}`, context: { n }, startAt }))
const outcomes = (results: readonly BulkResult[]) =>
  Object.fromEntries(results.map(({ id, outcome, code }) => [id, code ?? outcome]))
const get = (Settlement: DispatchDefinition<never>, key: string) => bus.hf.item(Settlement, key).get()
const trail = async (Settlement: DispatchDefinition<never>, key: string) =>
  (await bus.hf.auditTrail({ name: `${Settlement.name}/${key}` })).filter(({ actor }) => actor !== null)

test('D-15 a READY item is cancelled for good, with actor and reason; a second cancel is refused', async () => {
  const { Settlement } = settlement()
  await bus.hf.schedule(Settlement, items(2))
  await bus.hf.item(Settlement, 'PAY-0').cancel(by)
  expect(await get(Settlement, 'PAY-0')).toMatchObject({
    status: 'FAILED',
    dueAt: null,
    context: undefined,
    lastError: 'CANCELLED: cancelled by ann: ticket 7',
  })
  expect(await trail(Settlement, 'PAY-0')).toMatchObject([
    { event: 'CANCELLED', actor: 'ann', reason: 'ticket 7', before: { status: 'READY' }, after: { status: 'FAILED' } },
  ])
  await expect(bus.hf.item(Settlement, 'PAY-0').cancel(by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
  await expect(bus.hf.item(Settlement, 'nobody').cancel(by)).rejects.toMatchObject({
    code: 'HF_NOT_FOUND',
  })
  await expect(bus.hf.item(Settlement, 'PAY-1').cancel({ actor: 'ann', reason: '' })).rejects.toMatchObject({
    code: 'HF_INVALID_ACTOR',
  })
  // Its id stays taken: scheduling it again does not bring it back.
  await expect(
    bus.hf.schedule(Settlement, { key: 'PAY-0', context: { n: 9 }, startAt: four }, { replace: true }),
  ).rejects.toMatchObject({ code: 'HF_ITEM_CONFLICT' })
})

test('D-15 cancelling a dispatched item cancels its execution in the same call: process and workflow', async () => {
  const { Settle, Settlement, domain } = settlement()
  await bus.hf.schedule(Settlement, items(2, past))
  await runDispatchCycle(bus.db, Settlement)
  const worker = await bus.runProcesses(Settle)
  await waitFor(
    'both wait',
    async () => (await bus.hf.processes.list({ domain, status: 'WAITING_FOR_ASYNC' })).items.length === 2,
  )
  expect(outcomes(await bus.hf.dispatch.cancelMany(Settlement, ['PAY-0', 'x'], by))).toEqual({
    'PAY-0': 'done',
    x: 'HF_NOT_FOUND',
  })
  await waitFor('it has ended', async () => (await get(Settlement, 'PAY-0')).status === 'FAILED')
  expect(await get(Settlement, 'PAY-1')).toMatchObject({ status: 'DISPATCHED' })
  expect(await bus.hf.dispatch.cancelMany(Settlement, { status: 'DISPATCHED' }, by)).toHaveLength(1)
  await waitFor('the other one too', async () => (await get(Settlement, 'PAY-1')).status === 'FAILED')
  await worker.stop()

  const flow = name()
  const Payout = defineDispatch(flow, 'Items', {
    target: workflowTarget(defineWorkflow('test', flow).step('pay', `pay ${flow}`).build()),
  })
  await bus.hf.schedule(Payout, items(1, past))
  await runDispatchCycle(bus.db, Payout)
  await bus.hf.item(Payout.name, 'PAY-0').cancel(by)
  await waitFor('the workflow has ended', async () => (await get(Payout, 'PAY-0')).status === 'FAILED')
})

test('D-15 a remote execution is cancelled by its target, and refused clearly where the target cannot', async () => {
  const cancelled: string[] = []
  const target = {
    name: 'elsewhere',
    start: async (starts: readonly unknown[]) => starts.map(() => 'started' as const),
    describe: async (ids: readonly string[]) => ids.map(() => ({ status: 'RUNNING' as const })),
  }
  const context = z.object({ n: z.number() })
  const Plain = defineDispatch(name(), 'Items', { context, target })
  await bus.hf.schedule(Plain, items(1, past))
  await runDispatchCycle(bus.db, Plain)
  await expect(bus.hf.item(Plain, 'PAY-0').cancel(by)).rejects.toThrow(
    'is DISPATCHED and cannot be cancelled: the target elsewhere cannot cancel executions',
  )
  const Able = defineDispatch(name(), 'Items', {
    context,
    target: { ...target, cancel: async (ids: readonly string[]) => void cancelled.push(...ids) },
  })
  await bus.hf.schedule(Able, items(1, past))
  await runDispatchCycle(bus.db, Able)
  await bus.hf.item(Able, 'PAY-0').cancel(by)
  expect(cancelled).toEqual([`exec:${Able.name}:PAY-0:0`])
  expect(outcomes(await bus.hf.dispatch.rescheduleMany(Able, ['PAY-0'], by, { startAt: four }))).toEqual({
    'PAY-0': 'HF_WRONG_STATUS',
  })
})

test('D-15 a READY item gets another time or context, checked like the first; an invalid one changes nothing', async () => {
  const { Settlement } = settlement()
  await bus.hf.schedule(Settlement, items(3))
  const five = new Date(four.getTime() + 3_600_000)
  await bus.hf.item(Settlement, 'PAY-0').reschedule(by, { startAt: five })
  expect(await get(Settlement, 'PAY-0')).toMatchObject({ startAt: five, dueAt: five, context: { n: 0 } })
  await bus.hf.item(Settlement, 'PAY-1').reschedule(by, { context: { n: 77 } })
  expect(await get(Settlement, 'PAY-1')).toMatchObject({ startAt: four, context: { n: 77 } })
  await expect(bus.hf.item(Settlement, 'PAY-2').reschedule(by, { context: { n: 'x' as never } })).rejects.toMatchObject(
    { code: 'HF_INVALID_DATA' },
  )
  await expect(bus.hf.item(Settlement, 'PAY-2').reschedule(by, {})).rejects.toMatchObject({
    code: 'HF_INVALID_OPTION',
  })
  expect(await get(Settlement, 'PAY-2')).toMatchObject({ startAt: four, context: { n: 2 } })
  expect(await trail(Settlement, 'PAY-0')).toMatchObject([{ event: 'RESCHEDULED', ...by }])
  const moved = await bus.hf.dispatch.rescheduleMany(Settlement, { startAt: { from: five } }, by, { startAt: four })
  expect(outcomes(moved)).toEqual({ 'PAY-0': 'done' })
})

test('D-15 an expedited item is due now and goes before all others', async () => {
  const { Settlement } = settlement({ batchSize: 2 })
  await bus.hf.schedule(Settlement, items(5, past))
  await bus.hf.schedule(Settlement, { key: 'urgent', context: { n: 9 }, startAt: four })
  await bus.hf.item(Settlement, 'urgent').expedite(by)
  await runDispatchCycle(bus.db, Settlement)
  const { items: released } = await bus.hf.dispatch.list({ domain: Settlement.domain, status: 'DISPATCHED' })
  expect(released.map(({ key }) => key).sort()).toEqual(['PAY-0', 'urgent'])
  expect(await trail(Settlement, 'urgent')).toMatchObject([{ event: 'EXPEDITED', ...by }])
})

test('D-15 many by filter: each item has its own result, and an empty filter selects nothing', async () => {
  const { Settlement } = settlement()
  await bus.hf.schedule(Settlement, items(2_500))
  await bus.hf.schedule(Settlement, { key: 'earlier', context: { n: 1 }, startAt: new Date('2030-01-01') })
  for (const which of [{}, 'everything', null, { form: four }]) {
    await expect(bus.hf.dispatch.cancelMany(Settlement, which as never, by)).rejects.toThrow()
  }
  const answers = await bus.hf.dispatch.cancelMany(Settlement, { startAt: { from: four } }, by)
  expect(answers).toHaveLength(2_500)
  expect(new Set(answers.map(({ outcome }) => outcome))).toEqual(new Set(['done']))
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ READY: 1, FAILED: 2_500 })
})

test('D-15 dead letters are discarded or completed by hand, by id, by failure group, or all', async () => {
  const { Settlement } = settlement()
  await bus.hf.schedule(Settlement, items(4, past))
  await bus.sql('delete from holdfast.dispatch_context where item_type = $1', [Settlement.name])
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DEAD_LETTER: 4 })
  const { trouble } = bus.hf
  const ofType = { model: 'dispatch', domain: Settlement.domain, type: Settlement.type } as const
  const { items: dead } = await trouble.list(ofType)
  const byKey = (key: string) => dead.filter((letter) => letter.key === key)
  expect(outcomes(await trouble.cancel(byKey('PAY-0'), by))).toEqual({ 'PAY-0': 'done' })
  expect(outcomes(await trouble.complete([...byKey('PAY-0'), ...byKey('PAY-1')], by))).toEqual({
    'PAY-0': 'HF_NOT_IN_TROUBLE',
    'PAY-1': 'done',
  })
  expect(await trouble.cancel({ ...ofType, fingerprint: 'another' }, by)).toEqual([])
  const [group] = await trouble.groups(ofType)
  expect(await trouble.complete({ ...ofType, fingerprint: group?.fingerprint ?? '' }, by)).toHaveLength(2)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DEAD_LETTER: 0, FAILED: 1, COMPLETED: 3 })
  expect(await trouble.count(ofType)).toBe(0)
  expect(await trail(Settlement, 'PAY-1')).toMatchObject([
    { event: 'COMPLETED_BY_HAND', before: { status: 'DEAD_LETTER' }, after: { status: 'COMPLETED' } },
  ])
})

test('K-23 a locked item is refused within five seconds and does not change later; the others are changed', async () => {
  const { Settlement } = settlement()
  await bus.hf.schedule(Settlement, items(4))
  const client = new pg.Client({ connectionString: bus.connectionString })
  await client.connect()
  await client.query('begin')
  await client.query('select from holdfast.dispatch_item where item_type = $1 and item_id = $2 for update', [
    Settlement.name,
    'PAY-1',
  ])
  await client.query('select from holdfast.dispatch_config where item_type = $1 for update', [Settlement.name])
  const [many, single, paused] = await endsWithin(
    5_500,
    Promise.allSettled([
      bus.hf.dispatch.cancelMany(Settlement, ['PAY-0', 'PAY-1', 'PAY-2'], by),
      bus.hf.item(Settlement, 'PAY-1').cancel(by),
      bus.hf.dispatch.pause(Settlement, by),
    ]),
  )
  expect(many).toMatchObject({ status: 'fulfilled' })
  expect(outcomes(many.status === 'fulfilled' ? many.value : [])).toEqual({
    'PAY-0': 'done',
    'PAY-1': 'HF_BUSY',
    'PAY-2': 'done',
  })
  expect(single).toMatchObject({ reason: { code: 'HF_BUSY' } })
  expect(paused).toMatchObject({ reason: { code: 'HF_BUSY' } })
  await client.query('rollback')
  await client.end()
  expect(await get(Settlement, 'PAY-1')).toMatchObject({ status: 'READY' })
  expect(await bus.hf.dispatch.settings(Settlement)).toMatchObject({ enabled: true })
})
