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

test('D-04 the kill switch leaves alone what has begun, whether it runs or waits', async () => {
  const bank = gate()
  const called: string[] = []
  const Settle = defineProcess('switch', 'Settle', {
    state: z.object({ name: z.enum(['runs', 'sleeps']) }),
    async execute(ctx, { name }) {
      if (name === 'sleeps') await ctx.sleep('a while', '1h')
      await ctx.step('settle', {
        run: () => {
          called.push(name)
          return bank.passed
        },
      })
    },
  })
  const Settlement = defineDispatch(itemType(), {
    target: processTarget(Settle),
    config: { jitterWindowMs: 0 },
  })
  await bus.hf.dispatch.schedule(
    Settlement,
    (['runs', 'sleeps'] as const).map((name) => ({ itemId: name, context: { name }, execTime: past })),
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
  await bus.moveClock(3_601_000)
  await waitFor('both are settled', async () => (await standing()).every(({ status }) => status === 'COMPLETED'))
  expect(called).toEqual(['runs', 'sleeps'])
})
