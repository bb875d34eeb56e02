import { gate, numbered, openTestBus, runDispatchCycle, type TestBus, waitFor } from '@holdfast/testing/internal'
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
const itemType = numbered('switch')
const past = new Date('2020-01-01T00:00:00Z')

test('D-04 the kill switch does not touch executions that have begun, whether they run or wait', async () => {
  const bank = gate()
  const called: string[] = []
  const Settle = defineProcess('switch', 'Settle', {
    state: z.object({ name: z.enum(['runs', 'sleeps']) }),
    async execute(ctx, { name }) {
      if (name === 'sleeps') await ctx.sleep('a while', '1h')
      await ctx.step('settle', () => {
        called.push(name)
        return bank.passed
      })
    },
  })
  const Settlement = defineDispatch(itemType(), 'Items', {
    target: processTarget(Settle),
    settings: { jitterWindow: 0 },
  })
  await bus.hf.schedule(
    Settlement,
    (['runs', 'sleeps'] as const).map((name) => ({ key: name, context: { name }, startAt: past })),
  )
  await runDispatchCycle(bus.db, Settlement)
  await bus.runProcesses(Settle)
  const standing = () =>
    bus.sql<{ status: string; due_at: Date | null; leased_by: string | null }>(
      `select status, due_at, leased_by from holdfast.process where type = 'switch/Settle' order by status`,
    )
  await waitFor(
    'one runs and one sleeps',
    async () => called.length === 1 && (await standing()).some(({ status }) => status === 'WAITING_FOR_ASYNC'),
  )

  await bus.hf.dispatch.pause(Settlement, by)
  expect((await standing()).map(({ due_at }) => due_at)).toEqual([expect.any(Date), expect.any(Date)])

  bank.open()
  // Before the clock ends its lease.
  await waitFor('the one that runs is settled', async () =>
    (await standing()).some(({ status }) => status === 'COMPLETED'),
  )
  await bus.moveClock(3_601_000)
  await waitFor('both are settled', async () => (await standing()).every(({ status }) => status === 'COMPLETED'))
  expect(called).toEqual(['runs', 'sleeps'])
})

test('D-04 a release that was decided before the kill switch and is written after it releases nothing', async () => {
  const Settle = defineProcess('switch', 'SettleLate', {
    state: z.object({ n: z.number() }),
    execute: async () => undefined,
  })
  const Settlement = defineDispatch(itemType(), 'Items', {
    target: processTarget(Settle),
    settings: { jitterWindow: 0 },
  })
  await bus.hf.schedule(Settlement, { key: 'PAY-1', context: { n: 1 }, startAt: past })
  await bus.hf.dispatch.pause(Settlement, by)
  // As a dispatcher asks that has read its settings a moment earlier.
  const request = {
    type: Settlement.name,
    epoch: 0,
    batch: crypto.randomUUID(),
    most: 5,
    execType: 'switch/SettleLate',
    version: 1,
    contextVersion: 1,
    redirected: false,
  }
  const release = () =>
    bus.sql('select holdfast.release_dispatch_items($1::jsonb, null, null, null) as answer', [JSON.stringify(request)])
  expect(await release()).toMatchObject([{ answer: { outcome: 'off' } }])
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ READY: 1, DISPATCHED: 0 })
  // It is the switch that has kept it back.
  await bus.hf.dispatch.resume(Settlement, by)
  await release()
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ READY: 0, DISPATCHED: 1 })
})

test('K-18 D-04 the kill switch and a pause of the definition are one: either is listed, and either resume lifts it', async () => {
  const Settle = defineProcess(itemType(), 'Settle', { state: z.object({}), execute: async () => 'settled' })
  const Settlement = defineDispatch(itemType(), 'Items', {
    target: processTarget(Settle),
    settings: { jitterWindow: 0, dispatchInterval: 0 },
  })
  await bus.hf.schedule(Settlement, { key: 'PAY-1', context: {}, startAt: past })
  const definition = Settlement.name
  const listed = async () => (await bus.hf.pauses()).filter(({ subject }) => subject === `definition:${definition}`)
  const isEnabled = async () => (await bus.hf.dispatch.settings(Settlement)).enabled
  const pauses = [
    () => bus.hf.dispatch.pause(Settlement, by),
    () => bus.hf.pause({ definition }, by),
    async () => {
      await bus.hf.dispatch.pause(Settlement, by)
      expect(await bus.hf.pause({ definition }, { actor: 'bob', reason: 'me too' })).toBe(false)
    },
  ]
  for (const pause of pauses) {
    for (const resume of [() => bus.hf.dispatch.resume(Settlement, by), () => bus.hf.resume({ definition }, by)]) {
      await pause()
      expect(await listed()).toHaveLength(1)
      expect(await isEnabled()).toBe(false)
      await runDispatchCycle(bus.db, Settlement)
      expect(await bus.hf.item(Settlement, 'PAY-1').get()).toMatchObject({ status: 'READY' })
      await resume()
      expect(await listed()).toEqual([])
      expect(await isEnabled()).toBe(true)
    }
  }
  await bus.hf.dispatch.pause(Settlement, by)
  expect(await listed()).toEqual([{ subject: `definition:${definition}`, pausedAt: expect.any(Date), ...by }])
  expect(await bus.hf.resume({ definition }, by)).toBe(true)
  expect(await bus.hf.resume({ definition }, by)).toBe(false)
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.item(Settlement, 'PAY-1').get()).toMatchObject({ status: 'DISPATCHED' })
})
