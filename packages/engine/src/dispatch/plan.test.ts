import { numbered, openTestBus, runDispatchCycle, type TestBus } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineProcess } from '../processes/index.js'
import { defineDispatch } from './define.js'
import { processTarget } from './targets/process.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'ticket 7' }
const itemType = numbered('plan')
const Settle = defineProcess('plan', 'Settle', { state: z.object({}), execute: async () => undefined })
const settlement = () => defineDispatch(itemType(), { target: processTarget(Settle), config: { jitterWindowMs: 0 } })
const item = (itemId: string, execTime: Date) => ({ itemId, context: {}, execTime })
const many = (count: number, execTime: Date, name = 'PAY') =>
  Array.from({ length: count }, (_, n) => item(`${name}-${n}`, execTime))
const four = new Date('2031-03-02T16:00:00Z')

test('D-12 before it runs: how many are due in which minute, at which rate, and when it will finish', async () => {
  const Settlement = settlement()
  await bus.hf.dispatch.schedule(Settlement, many(1_200, four))
  await bus.hf.dispatch.schedule(Settlement, many(60, new Date(four.getTime() + 90_000), 'LATE'))
  const plan = await bus.hf.dispatch.plan(Settlement)
  expect(plan).toMatchObject({
    enabled: true,
    ready: 1_260,
    overdue: 0,
    due: [
      { at: four, count: 1_200 },
      { at: new Date(four.getTime() + 60_000), count: 60 },
    ],
    later: 0,
    lastDueAt: new Date(four.getTime() + 90_000),
    rate: { configuredPerSecond: 100, measuredPerSecond: null },
    forecast: { latestByMs: 12_000 },
  })
})

test('D-12 what a change of rate would do', async () => {
  const Settlement = settlement()
  await bus.hf.dispatch.schedule(Settlement, many(3_000, four))
  const finish = async (options = {}) => (await bus.hf.dispatch.plan(Settlement, options)).forecast.finishesAt
  expect(await finish()).toEqual(new Date(four.getTime() + 30_000))
  expect(await finish({ batchSize: 1_500 })).toEqual(new Date(four.getTime() + 10_000))
  expect(await finish({ dispatchIntervalSecs: 10 })).toEqual(new Date(four.getTime() + 60_000))
  expect(await finish({ limitPerSecond: 10 })).toEqual(new Date(four.getTime() + 300_000))
  await bus.hf.limits.set(Settlement.itemType, { ticketsPerSecond: 50 }, by)
  await bus.hf.dispatch.configure(Settlement, { rateLimitKey: Settlement.itemType }, by)
  expect(await finish()).toEqual(new Date(four.getTime() + 60_000))
  expect(await finish({ limitPerSecond: null })).toEqual(new Date(four.getTime() + 30_000))
  await expect(finish({ batchSize: 0 })).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
})

test('D-12 while it runs: what is left, what was measured, and nothing ends while it is switched off', async () => {
  const Settlement = settlement()
  await bus.hf.dispatch.schedule(Settlement, many(700, new Date('2020-01-01T00:00:00Z')))
  await runDispatchCycle(bus.db, Settlement)
  const running = await bus.hf.dispatch.plan(Settlement)
  expect(running).toMatchObject({ ready: 200, overdue: 200, rate: { measuredPerSecond: expect.any(Number) } })
  expect(running.rate.measuredPerSecond).toBeGreaterThan(0)
  expect(running.forecast.finishesAt?.getTime()).toBe(running.now.getTime() + 2_000)
  await bus.hf.dispatch.pause(Settlement, by)
  expect(await bus.hf.dispatch.plan(Settlement)).toMatchObject({ enabled: false, forecast: { finishesAt: undefined } })
})

test('D-12 an execution time years away is shown', async () => {
  const Settlement = settlement()
  const far = new Date('2999-01-01T00:00:00Z')
  await bus.hf.dispatch.schedule(Settlement, [item('near', four), item('far', far)])
  expect(await bus.hf.dispatch.plan(Settlement, { minutes: 1 })).toMatchObject({ ready: 2, later: 1, lastDueAt: far })
  await expect(bus.hf.dispatch.plan('nobody')).rejects.toMatchObject({ code: 'HF_UNKNOWN_ITEM_TYPE' })
})
