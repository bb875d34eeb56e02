import { numbered, openTestBus, runDispatchCycle, type TestBus } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { BusinessError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from '../processes/index.js'
import { defineWorkflow } from '../workflows/index.js'
import { defineDispatch } from './define.js'
import { processTarget } from './targets/process.js'
import { workflowTarget } from './targets/workflow.js'
import type { StartOutcome } from './targets.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'ticket 7' }
const name = numbered('trip')
const past = new Date('2020-01-01T00:00:00Z')
const items = (count: number, prefix = 'PAY') =>
  Array.from({ length: count }, (_, n) => ({ key: `${prefix}-${n}`, context: { n }, startAt: past }))

test('D-16 a window whose target refuses everything stops after the given number of refusals in a row, reports it, and waits for an operator', async () => {
  const asked: number[] = []
  let refuse = true
  const refused: StartOutcome = { failed: new BusinessError('closed', { code: 'CLOSED' }) }
  const Settlement = defineDispatch(name(), 'Items', {
    context: z.object({ n: z.number() }),
    target: {
      name: 'bank',
      async start(starts) {
        asked.push(starts.length)
        return starts.map(({ context }) => (refuse && context.n > 0 ? refused : 'started'))
      },
      describe: async (ids) => ids.map(() => ({ status: 'RUNNING' as const })),
    },
    settings: { batchSize: 8, dispatchInterval: '1s', jitterWindow: 0, tripAfter: 12, maxDispatchRetries: 50 },
  })
  await bus.hf.schedule(Settlement, items(8))
  await runDispatchCycle(bus.db, Settlement)
  // One began: what failed before it does not count.
  await bus.hf.schedule(Settlement, items(40, 'LATER').slice(1))
  for (let cycle = 0; cycle < 10; cycle += 1) await runDispatchCycle(bus.db, Settlement)
  expect(asked).toEqual([8, 8, 2, 2])
  const { tripped } = await bus.hf.dispatch.settings(Settlement)
  expect(tripped).toMatchObject({ reason: 'CLOSED: closed', failures: 12 })
  expect(await bus.hf.dispatch.plan(Settlement)).toMatchObject({ tripped: true, forecast: { finishesAt: undefined } })
  expect((await bus.hf.auditTrail({ name: Settlement.name })).at(-1)).toMatchObject({ event: 'TRIPPED' })
  refuse = false
  await bus.hf.dispatch.resume(Settlement, by)
  expect(await bus.hf.dispatch.settings(Settlement)).toMatchObject({ tripped: null })
  await runDispatchCycle(bus.db, Settlement)
  expect(asked.at(-1)).toBe(8)
  expect((await bus.hf.auditTrail({ name: Settlement.name })).map(({ event }) => event)).toContain('RESUMED')
})

test('D-16 a window stops when no worker has the definition of what waits to begin', async () => {
  const domain = name()
  const Settle = defineProcess(domain, 'Settle', { state: z.object({ n: z.number() }), execute: async () => undefined })
  const Settlement = defineDispatch(domain, 'Items', {
    target: processTarget(Settle),
    settings: { batchSize: 5, dispatchInterval: 0, jitterWindow: 0, tripAfter: 10 },
  })
  await bus.hf.schedule(Settlement, items(40))
  for (let cycle = 0; cycle < 2; cycle += 1) await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 10 })
  await bus.moveClock(200_000)
  await runDispatchCycle(bus.db, Settlement)
  expect((await bus.hf.dispatch.settings(Settlement)).tripped?.reason).toBe(
    `10 executions of ${domain}/Settle wait, and no worker has that definition`,
  )
  // A worker comes, and an operator lets it go on.
  const worker = await bus.runProcesses(Settle)
  await bus.hf.dispatch.resume(Settlement, by)
  await runDispatchCycle(bus.db, Settlement)
  expect((await bus.hf.dispatch.settings(Settlement)).tripped).toBeNull()
  await worker.stop()
  await bus.moveClock(0)
})

test('K-11 a database that is restored to an earlier state under a live program: scheduling and releasing go on', async () => {
  const flow = name()
  const Payout = defineDispatch(flow, 'Items', {
    target: workflowTarget(defineWorkflow('test', flow).step('pay', `pay ${flow}`).build()),
    settings: { dispatchInterval: 0, jitterWindow: 0 },
  })
  await bus.hf.schedule(Payout, items(1))
  const lose = async () => {
    for (const table of ['config', 'cycle', 'item', 'context', 'tally']) {
      await bus.sql(`delete from holdfast.dispatch_${table} where item_type = $1`, [Payout.name])
    }
    await bus.sql('delete from holdfast.workflow_definition where name = $1', [flow])
  }
  await lose()
  expect(await bus.hf.schedule(Payout, items(1))).toMatchObject({ created: 1 })
  await lose()
  expect(await bus.hf.schedule(Payout, items(3))).toMatchObject({ created: 3 })
  await lose()
  expect(
    await bus.db.transaction((tx) =>
      bus.hf.schedule(Payout, items(2), { transaction: { query: (text, params) => tx.query(text, params) } }),
    ),
  ).toMatchObject({ created: 2 })
  await runDispatchCycle(bus.db, Payout)
  expect(await bus.hf.dispatch.depth(Payout)).toMatchObject({ DISPATCHED: 2 })
})
