import { gate, numbered, openTestBus, runDispatchCycle, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import { defineProcess, type ProcessContext } from '../processes/index.js'
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
const name = numbered('why')
const past = new Date('2020-01-01T00:00:00Z')
const four = new Date('2031-01-31T16:00:00Z')
const why = (Settlement: DispatchDefinition<never>, key = 'PAY-1') => bus.hf.item(Settlement, key).why()

/** A definition, and whether a live worker has it. */
async function settlement(
  settings: DispatchSettings = {},
  execute: (ctx: ProcessContext) => Promise<unknown> = async () => undefined,
) {
  const domain = name()
  const Settle = defineProcess(domain, 'Settle', { state: z.object({}), execute })
  const Settlement = defineDispatch(domain, 'Settlement', {
    target: processTarget(Settle),
    settings: { dispatchInterval: 0, jitterWindow: 0, maxDispatchRetries: 1, ...settings },
  })
  await bus.hf.schedule(Settlement, { key: 'PAY-1', context: {}, startAt: past })
  const live = (model: 'dispatch' | 'processes' = 'dispatch', of = Settlement.name) =>
    bus.sql(
      `insert into holdfast.worker_definition (model, name, version, worker, seen_at) values ($1, $2, 1, 'a test', holdfast.now())`,
      [model, of],
    )
  return { Settle, Settlement, live }
}

test('U-04 why: not due, and when it will be', async () => {
  const { Settlement } = await settlement()
  await bus.hf.item(Settlement, 'PAY-1').reschedule(by, { startAt: four })
  expect(await why(Settlement)).toEqual({ reason: 'notDue', text: `It is due at ${four.toISOString()}.`, at: four })
})

test('U-04 why: no live worker has its definition', async () => {
  const { Settlement } = await settlement()
  expect(await why(Settlement)).toMatchObject({
    reason: 'noWorker',
    text: expect.stringContaining(`no live worker has ${Settlement.name}: register it`),
  })
})

test('U-04 why: queued, and how many items are before it', async () => {
  const { Settlement, live } = await settlement({ batchSize: 10, dispatchInterval: '5s' })
  await bus.hf.schedule(Settlement, { key: 'PAY-2', context: {}, startAt: past })
  await live()
  expect(await why(Settlement)).toEqual({
    reason: 'queued',
    text: 'It is due, and items are released 10 every 5 s; 0 items are before it.',
  })
  expect((await why(Settlement, 'PAY-2')).text).toContain('; 1 item is before it')
})

test('U-04 why: a rate limit, and how many items are before it', async () => {
  const key = name()
  await bus.hf.limits.define(key, { ticketsPerSecond: 5, burst: 5 })
  const { Settlement, live } = await settlement({ rateLimitKey: key })
  await live()
  expect(await why(Settlement)).toEqual({
    reason: 'rateLimited',
    text: `It waits for the rate limit ${key} (5 per second); 0 items are before it.`,
  })
})

test('U-04 why: switched off, by whom and why', async () => {
  const { Settlement } = await settlement()
  await bus.hf.dispatch.pause(Settlement, by)
  expect(await why(Settlement)).toMatchObject({
    reason: 'paused',
    text: expect.stringMatching(new RegExp(`^${Settlement.name} was switched off at .*Z by ann: ticket 7\\.$`)),
  })
})

test('U-04 why: its domain is paused, by whom and why', async () => {
  const { Settlement } = await settlement()
  await bus.hf.pause({ domain: Settlement.domain }, by)
  expect(await why(Settlement)).toMatchObject({
    reason: 'paused',
    text: expect.stringMatching(new RegExp(`^domain:${Settlement.domain} was paused at .*Z by ann: ticket 7\\.$`)),
  })
})

test('U-04 why: the window has stopped by itself', async () => {
  const { Settlement } = await settlement()
  await bus.sql(
    `update holdfast.dispatch_cycle set tripped_at = holdfast.now(), trip_reason = 'REFUSED: no' where item_type = $1`,
    [Settlement.name],
  )
  expect(await why(Settlement)).toMatchObject({
    reason: 'needsPerson',
    text: expect.stringMatching(/stopped by itself at .*: REFUSED: no\. Repair that and resume it\.$/),
  })
})

test('U-04 why: a dead letter, and then that it has ended', async () => {
  const { Settlement } = await settlement()
  await bus.sql('delete from holdfast.dispatch_context where item_type = $1', [Settlement.name])
  await runDispatchCycle(bus.db, Settlement)
  expect(await why(Settlement)).toEqual({
    reason: 'needsPerson',
    text: 'It is a dead letter after 1 attempt: CONTEXT_MISSING: the context of the item is missing. Retry, complete or cancel it.',
  })
  await bus.hf.item(Settlement, 'PAY-1').cancel(by)
  expect(await why(Settlement)).toMatchObject({
    reason: 'ended',
    text: expect.stringMatching(/^It ended FAILED at .*: CONTEXT_MISSING: the context of the item is missing\.$/),
  })
})

test('U-04 why: dispatched, and what its process does: waits for a worker, begins later, is held, runs, waits, needs a person, has ended', async () => {
  const inside = gate()
  let broken = true
  const { Settle, Settlement, live } = await settlement({}, async (ctx) => {
    await ctx.step('pay', () => inside.passed)
    await ctx.sleep('a night', '10h')
  })
  await runDispatchCycle(bus.db, Settlement)
  const item = bus.hf.item(Settlement, 'PAY-1')
  expect(await item.why()).toMatchObject({
    reason: 'noWorker',
    text: expect.stringMatching(/^It was dispatched at .*Z as exec:.*:PAY-1:0\. .*no live worker has/),
  })
  await live('processes', Settle.name)
  expect(await item.why()).toMatchObject({
    reason: 'queued',
    text: expect.stringContaining('PAY-1:0. It '),
  })
  await bus.hf.dispatch.pause(Settlement, by)
  expect(await item.why()).toMatchObject({
    reason: 'paused',
    text: expect.stringMatching(/has not begun: .* was switched off at .* by ann: ticket 7\.$/),
  })
  await bus.hf.dispatch.resume(Settlement, by)
  await bus.hf.pause({ definition: Settle.name }, by)
  expect(await item.why()).toMatchObject({
    reason: 'paused',
    text: expect.stringContaining('paused'),
  })
  await bus.hf.resume({ definition: Settle.name }, by)
  const worker = await bus.runProcesses(Settle)
  await waitFor('it runs', async () => (await item.why()).reason === 'running')
  inside.open()
  await waitFor('it sleeps', async () => (await item.why()).reason === 'waiting')
  expect((await item.why()).text).toContain('a night')
  await worker.stop()

  const failing = await settlement({}, async () => {
    if (broken) throw new PermanentError('no such account')
  })
  await runDispatchCycle(bus.db, failing.Settlement)
  const other = await bus.runProcesses(failing.Settle)
  const stuck = bus.hf.item(failing.Settlement, 'PAY-1')
  await waitFor('it needs a person', async () => (await stuck.why()).reason === 'needsPerson')
  expect((await stuck.why()).text).toContain('no such account')
  expect((await stuck.why()).text).toMatch(
    /That is done on the process .*\/Settle [-0-9a-f]{36}, by its handle or with hf\.trouble/,
  )
  broken = false
  await bus.hf.trouble.retry({ type: 'Settle', domain: failing.Settle.domain }, by)
  await stuck.result()
  expect(await stuck.why()).toMatchObject({ reason: 'ended', text: expect.stringMatching(/^It ended COMPLETED at /) })
  await other.stop()
})

test('U-04 why: dispatched to begin at its time, and what its workflow says of itself', async () => {
  const flow = name()
  const Flow = defineWorkflow('test', flow).step('pay', `pay ${flow}`).build()
  const settings = { dispatchInterval: 0, jitterWindow: 0, preStartBuffer: '10m' } as const
  const Payout = defineDispatch(flow, 'Payout', { target: workflowTarget(Flow), settings })
  const { Settlement } = await settlement(settings)
  const soon = new Date(Date.now() + 300_000)
  await bus.hf.schedule(Settlement, { key: 'PAY-2', context: {}, startAt: soon })
  await bus.hf.schedule(Payout, { key: 'PAY-2', context: {}, startAt: soon })
  await runDispatchCycle(bus.db, Settlement)
  await runDispatchCycle(bus.db, Payout)
  expect(await why(Settlement, 'PAY-2')).toMatchObject({ reason: 'notDue', at: soon })
  expect(await why(Payout, 'PAY-2')).toMatchObject({ reason: 'notDue', at: soon })
  await bus.hf.schedule(Payout, { key: 'PAY-3', context: {}, startAt: past })
  await runDispatchCycle(bus.db, Payout)
  expect(await why(Payout, 'PAY-3')).toMatchObject({
    reason: 'noWorker',
    text: expect.stringMatching(/^It was dispatched at .*Z as exec:.*:PAY-3:0\. The start of the instance waits/),
  })
})

test('U-04 why: a remote target has it, or the outcome of its start is unknown', async () => {
  const outcomes = new Map<string, unknown>([['unknown', new Error('connection lost')]])
  const Remote = defineDispatch(name(), 'Remote', {
    context: z.object({}),
    target: {
      name: 'elsewhere',
      start: async (items) =>
        items.map(({ key }) => (outcomes.has(key) ? { failed: outcomes.get(key) } : ('started' as const))),
      describe: async (ids) => ids.map(() => ({ status: 'UNKNOWN' as const })),
    },
    settings: { dispatchInterval: 0, jitterWindow: 0 },
  })
  await bus.hf.schedule(
    Remote,
    ['started', 'unknown'].map((key) => ({ key, context: {}, startAt: past })),
  )
  await runDispatchCycle(bus.db, Remote)
  expect(await why(Remote, 'started')).toMatchObject({
    reason: 'running',
    text: expect.stringMatching(/and its target has not reported its end; its target is asked about it at .*Z\.$/),
    at: expect.any(Date),
  })
  expect(await why(Remote, 'unknown')).toMatchObject({
    reason: 'waiting',
    text: expect.stringMatching(
      /^Its start ended with .*connection lost, so the target is asked at .*Z whether it was started\. If you know: complete it, or retry it with notDone\.$/,
    ),
  })
  await bus.sql(`update holdfast.dispatch_item set last_error = null where item_type = $1 and item_id = 'unknown'`, [
    Remote.name,
  ])
  expect(await why(Remote, 'unknown')).toMatchObject({
    reason: 'running',
    text: expect.stringMatching(/^Its target was asked to start it at .*Z\.$/),
  })
})
