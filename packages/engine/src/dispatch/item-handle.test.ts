import { numbered, openTestBus, runDispatchCycle, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from '../processes/index.js'
import { defineWorkflow } from '../workflows/index.js'
import { defineDispatch } from './define.js'
import { ItemHandle } from './item-handle.js'
import type { DispatchSettings } from './settings.js'
import { processTarget } from './targets/process.js'
import { workflowTarget } from './targets/workflow.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'ticket 7' }
const name = numbered('handle')
const past = new Date('2020-01-01T00:00:00Z')
const four = new Date('2031-01-31T16:00:00Z')

function settlement(execute: (n: number) => unknown = (n) => ({ paid: n }), config: DispatchSettings = {}) {
  const domain = name()
  const Settle = defineProcess(domain, 'Settle', {
    state: z.object({ n: z.number() }),
    execute: async (ctx, { n }) => ctx.step('pay', () => execute(n)),
  })
  const Settlement = defineDispatch(domain, 'Items', {
    target: processTarget(Settle),
    settings: { dispatchInterval: 0, jitterWindow: 0, maxDispatchRetries: 1, ...config },
  })
  return { Settle, Settlement }
}

/** An item that is a dead letter because its context is gone. */
async function deadLetter() {
  const { Settlement } = settlement()
  const item = await bus.hf.schedule(Settlement, { key: 'PAY-1', context: { n: 1 }, startAt: past })
  await bus.sql('delete from holdfast.dispatch_context where item_type = $1', [Settlement.name])
  await runDispatchCycle(bus.db, Settlement)
  expect(await item.get()).toMatchObject({ status: 'DEAD_LETTER' })
  return { Settlement, item }
}

test('U-02 scheduling one item returns its handle, which says whether this call scheduled it; a list returns counts', async () => {
  const { Settlement } = settlement()
  const item = { key: 'PAY-1', context: { n: 1 }, startAt: four }
  const first = await bus.hf.schedule(Settlement, item)
  expect(first).toMatchObject({ id: 'PAY-1', created: true, replaced: false })
  expect(await first.get()).toMatchObject({ key: 'PAY-1', startAt: four, status: 'READY', context: { n: 1 } })
  expect(await bus.hf.schedule(Settlement, item)).toMatchObject({ created: false, replaced: false })
  expect(await bus.hf.schedule(Settlement, [item])).toEqual({ created: 0, existing: 1, replaced: 0 })
  await expect(bus.hf.schedule(Settlement, { ...item, key: '' })).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
})

test('U-04 a handle is made without a query, by definition or name, and its methods are on its prototype', async () => {
  const { Settlement } = settlement()
  await bus.hf.schedule(Settlement, { key: 'PAY-1', context: { n: 1 }, startAt: four })
  const handle = bus.hf.item(Settlement.name, 'PAY-1')
  expect(handle).toBeInstanceOf(ItemHandle)
  expect(Object.keys(handle)).toEqual(['id'])
  expect(await handle.get()).toMatchObject({ key: 'PAY-1' })
  expect(() => bus.hf.item(Settlement, '')).toThrow(expect.objectContaining({ code: 'HF_INVALID_OPTION' }))
  expect(() => bus.hf.item(Settlement, 'x'.repeat(201))).toThrow(expect.objectContaining({ code: 'HF_INVALID_OPTION' }))
})

test.each([
  ['get', (item: ItemHandle) => item.get()],
  ['result', (item: ItemHandle) => item.result()],
  ['history', (item: ItemHandle) => item.history()],
  ['why', (item: ItemHandle) => item.why()],
  ['retry', (item: ItemHandle) => item.retry(by)],
  ['cancel', (item: ItemHandle) => item.cancel(by)],
  ['complete', (item: ItemHandle) => item.complete(by)],
  ['reschedule', (item: ItemHandle) => item.reschedule(by, { startAt: four })],
  ['expedite', (item: ItemHandle) => item.expedite(by)],
])('U-04 U-11 %s of an unknown item is HF_NOT_FOUND', async (_, call) => {
  const { Settlement } = settlement()
  await bus.hf.schedule(Settlement, { key: 'PAY-1', context: { n: 1 }, startAt: four })
  await expect(call(bus.hf.item(Settlement, 'nobody'))).rejects.toMatchObject({
    code: 'HF_NOT_FOUND',
    details: { model: 'dispatch', id: 'nobody' },
  })
})

test.each([
  ['retry', (item: ItemHandle) => item.retry(by), 'cannot be retried: it is READY'],
  ['complete', (item: ItemHandle) => item.complete(by), 'cannot be completed: it is READY'],
])('U-04 %s of an item that is no dead letter is refused with its status', async (_, call, sentence) => {
  const { Settlement } = settlement()
  await bus.hf.schedule(Settlement, { key: 'PAY-1', context: { n: 1 }, startAt: four })
  await expect(call(bus.hf.item(Settlement, 'PAY-1'))).rejects.toMatchObject({
    code: 'HF_WRONG_STATUS',
    message: expect.stringContaining(sentence),
  })
})

test('U-04 result is what the process returned, for any number of waiters', async () => {
  const { Settle, Settlement } = settlement()
  const item = await bus.hf.schedule(Settlement, { key: 'PAY-1', context: { n: 5 }, startAt: past })
  const waiting = Promise.all([item.result(), item.result(), bus.hf.item(Settlement, 'PAY-1').result()])
  await runDispatchCycle(bus.db, Settlement)
  const worker = await bus.runProcesses(Settle)
  expect(await waiting).toEqual([{ paid: 5 }, { paid: 5 }, { paid: 5 }])
  expect(await item.result()).toEqual({ paid: 5 })
  await worker.stop()
})

test('U-04 result is the output of the workflow', async () => {
  const flow = name()
  const Flow = defineWorkflow('test', flow).step('pay', `pay ${flow}`).build()
  bus.hf.handle(`pay ${flow}`, async () => ({ reference: 'r1' }))
  const Payout = defineDispatch(flow, 'Items', {
    target: workflowTarget(Flow),
    settings: { dispatchInterval: 0, jitterWindow: 0 },
  })
  const item = await bus.hf.schedule(Payout, { key: 'PAY-1', context: { n: 5 }, startAt: past })
  await runDispatchCycle(bus.db, Payout)
  const worker = await bus.hf.run()
  expect(await item.result()).toEqual({ reference: 'r1' })
  await worker.stop()
})

test('U-04 result of a remote target is null, when it reports the end', async () => {
  const Remote = defineDispatch(name(), 'Items', {
    context: z.object({ n: z.number() }),
    target: {
      name: 'elsewhere',
      start: async (starts) => starts.map(() => 'started' as const),
      describe: async (ids) => ids.map(() => ({ status: 'RUNNING' as const })),
    },
  })
  const item = await bus.hf.schedule(Remote, { key: 'PAY-1', context: { n: 5 }, startAt: past })
  await runDispatchCycle(bus.db, Remote)
  await expect(item.result({ timeout: 50 })).rejects.toMatchObject({ code: 'HF_RESULT_TIMEOUT' })
  const waiting = item.result()
  const { executionId } = await item.get()
  await bus.hf.dispatch.reportEnd(Remote, { executionId: executionId ?? '', status: 'COMPLETED' })
  expect(await waiting).toBeNull()
})

test('U-04 result of an item that did not complete says how it ended, and one that needs an operator says so', async () => {
  const { item } = await deadLetter()
  await expect(item.result()).rejects.toMatchObject({
    code: 'HF_NEEDS_ATTENTION',
    details: { id: 'PAY-1', code: 'CONTEXT_MISSING' },
  })
  await item.cancel(by)
  await expect(item.result()).rejects.toMatchObject({
    code: 'HF_NOT_COMPLETED',
    details: { model: 'dispatch', id: 'PAY-1', status: 'FAILED', code: 'CONTEXT_MISSING' },
  })

  const { Settle, Settlement } = settlement(() => {
    throw new PermanentError('no such account')
  })
  const stuck = await bus.hf.schedule(Settlement, { key: 'PAY-2', context: { n: 1 }, startAt: past })
  await runDispatchCycle(bus.db, Settlement)
  const worker = await bus.runProcesses(Settle)
  await expect(stuck.result()).rejects.toMatchObject({
    code: 'HF_NEEDS_ATTENTION',
    details: { message: expect.stringContaining('no such account') },
  })
  await worker.stop()
})

test('U-04 a dead letter that is retried is READY again with all its attempts, at another time where one is given', async () => {
  const { item, Settlement } = await deadLetter()
  await item.retry(by, { startAt: four })
  expect(await item.get()).toMatchObject({ status: 'READY', retryCount: 0, startAt: four, dueAt: four })
  expect(await bus.hf.trouble.count({ model: 'dispatch', domain: Settlement.domain, type: Settlement.type })).toBe(0)
})

test('U-04 a dead letter is completed or cancelled, and its history says by whom', async () => {
  const completed = await deadLetter()
  await completed.item.complete(by)
  expect(await completed.item.get()).toMatchObject({ status: 'COMPLETED' })
  expect(await completed.item.result()).toBeNull()
  const cancelled = await deadLetter()
  await cancelled.item.cancel(by)
  expect(await cancelled.item.get()).toMatchObject({ status: 'FAILED', lastError: expect.stringContaining('CONTEXT') })
  expect(await cancelled.item.history()).toMatchObject([
    { event: 'START_FAILED', actor: null },
    { event: 'CANCELLED', ...by, before: { status: 'DEAD_LETTER' }, after: { status: 'FAILED' } },
  ])
})

test('U-04 waiting for a result ends when a person ends the item', async () => {
  const { Settlement } = settlement()
  const item = await bus.hf.schedule(Settlement, { key: 'PAY-1', context: { n: 1 }, startAt: four })
  const waiting = expect(item.result()).rejects.toMatchObject({ details: { code: 'CANCELLED' } })
  await waitFor('it is not due', async () => (await item.why()).reason === 'notDue')
  await item.cancel(by)
  await waiting
})

test('U-04 K-20 an operator says of a start of unknown outcome whether it was done', async () => {
  const started: string[] = []
  let lost = true
  const Remote = defineDispatch(name(), 'Items', {
    context: z.object({}),
    target: {
      name: 'elsewhere',
      async start(starts) {
        started.push(...starts.map(({ executionId }) => executionId))
        if (lost) throw new Error('connection lost')
        return starts.map(() => 'started' as const)
      },
      describe: async (ids) => ids.map(() => ({ status: 'UNKNOWN' as const })),
    },
    settings: { dispatchInterval: 0, jitterWindow: 0 },
  })
  await bus.hf.schedule(
    Remote,
    ['PAY-1', 'PAY-2'].map((key) => ({ key, context: {}, startAt: past })),
  )
  await runDispatchCycle(bus.db, Remote)
  const [one, two] = [bus.hf.item(Remote, 'PAY-1'), bus.hf.item(Remote, 'PAY-2')]
  expect(await one.get()).toMatchObject({ status: 'CLAIMED' })
  await expect(one.retry(by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
  await expect(one.cancel(by)).rejects.toMatchObject({ code: 'HF_WRONG_STATUS' })
  await two.complete(by)
  expect(await two.result()).toBeNull()
  await one.retry(by, { notDone: true })
  expect(await one.get()).toMatchObject({ status: 'READY' })
  lost = false
  await runDispatchCycle(bus.db, Remote)
  expect(await one.get()).toMatchObject({ status: 'DISPATCHED' })
  const id = (key: string) => `exec:${Remote.name}:${key}:0`
  expect(started).toEqual([id('PAY-1'), id('PAY-2'), id('PAY-1')])
  expect((await one.history()).map(({ event, actor }) => [event, actor])).toEqual([
    ['START_UNKNOWN', null],
    ['REQUEUED', 'ann'],
  ])
})
