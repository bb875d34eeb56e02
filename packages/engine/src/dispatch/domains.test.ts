import { readFile } from 'node:fs/promises'
import {
  gate,
  numbered,
  openTestBus,
  runDispatchChecks,
  runDispatchCycle,
  type TestBus,
  waitFor,
} from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { PermanentError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from '../processes/index.js'
import { defineWorkflow } from '../workflows/index.js'
import { type DispatchDefinition, defineDispatch } from './define.js'
import { processTarget } from './targets/process.js'
import { workflowTarget } from './targets/workflow.js'
import type { ExecutionState, ExecutionTarget } from './targets.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'ticket 7' }
const name = numbered('domains')
const past = new Date('2020-01-01T00:00:00Z')
const four = new Date('2031-01-31T16:00:00Z')
const quick = { dispatchInterval: 0, jitterWindow: 0 } as const

test('U-01 a definition has a domain, a type and a version, and its name consists of them', () => {
  const Settle = defineProcess(name(), 'Settle', { version: 3, state: z.object({}), execute: async () => undefined })
  const target = processTarget(Settle)
  expect(defineDispatch('payments', 'Settlement', { target })).toMatchObject({
    domain: 'payments',
    type: 'Settlement',
    name: 'payments/Settlement',
    version: 3,
  })
  for (const [domain, type] of [
    ['a/b', 'x'],
    ['a', 'x:y'],
    ['a:b', 'x'],
    ['', 'x'],
    ['a', '#'],
  ] as const) {
    expect(() => defineDispatch(domain, type, { target })).toThrow(
      expect.objectContaining({ code: 'HF_INVALID_OPTION' }),
    )
  }
})

test.each([
  ['domain', (definition: DispatchDefinition<never>) => ({ domain: definition.domain })],
  ['definition', (definition: DispatchDefinition<never>) => ({ definition: definition.name })],
])('U-01 K-18 while its %s is paused nothing is released, and afterwards it goes on', async (_, subjectOf) => {
  const domain = name()
  const Settle = defineProcess(name(), 'Settle', { state: z.object({}), execute: async () => undefined })
  const Settlement = defineDispatch(domain, 'Settlement', { target: processTarget(Settle), settings: quick })
  const item = await bus.hf.schedule(Settlement, { key: 'PAY-1', context: {}, startAt: past })
  await bus.hf.pause(subjectOf(Settlement), by)
  await runDispatchCycle(bus.db, Settlement)
  expect(await item.get()).toMatchObject({ status: 'READY' })
  await bus.hf.resume(subjectOf(Settlement), by)
  await runDispatchCycle(bus.db, Settlement)
  expect(await item.get()).toMatchObject({ status: 'DISPATCHED' })
})

test('U-01 no item is handed to a remote target while the domain is paused', async () => {
  const { target, started } = engine()
  const Remote = defineDispatch(name(), 'Remote', { context: z.object({}), target, settings: quick })
  await bus.hf.schedule(Remote, { key: 'PAY-1', context: {}, startAt: past })
  await bus.hf.pause({ domain: Remote.domain }, by)
  await runDispatchCycle(bus.db, Remote)
  expect(started).toEqual([])
})

test('U-01 a worker releases the items of its own domains only', async () => {
  const [ours, theirs] = [name(), name()]
  const Settle = defineProcess(name(), 'Settle', { state: z.object({}), execute: async () => undefined })
  const define = (domain: string) =>
    defineDispatch(domain, 'Settlement', { target: processTarget(Settle), settings: quick })
  const [Ours, Theirs] = [define(ours), define(theirs)]
  const own = await openTestBus({ connectionString: bus.connectionString })
  own.hf.register(Ours)
  own.hf.register(Theirs)
  const [mine, other] = [
    await own.hf.schedule(Ours, { key: 'PAY-1', context: {}, startAt: past }),
    await own.hf.schedule(Theirs, { key: 'PAY-1', context: {}, startAt: past }),
  ]
  const worker = await own.hf.run({ domains: [ours], poll: '20ms' })
  await waitFor('ours is released', async () => (await mine.get()).status === 'DISPATCHED')
  expect(await other.get()).toMatchObject({ status: 'READY' })
  await worker.stop()
  await own.close()
})

/** An engine elsewhere that remembers what it was asked to start. */
function engine() {
  const started: string[] = []
  const states = new Map<string, ExecutionState>()
  const answers = new Map<string, unknown>()
  const target: ExecutionTarget<Record<string, never>> = {
    name: 'elsewhere',
    start: async (items) =>
      items.map(({ key, executionId }) => {
        started.push(executionId)
        const failed = answers.get(key)
        return failed === undefined ? 'started' : { failed }
      }),
    describe: async (ids) => ids.map((id) => states.get(id) ?? { status: 'UNKNOWN' }),
  }
  return { target, started, states, answers }
}

/** Puts the tables back to where types of items had no domain, and their executions ids without one. */
async function asBeforeDomains(): Promise<void> {
  const tables = ['config', 'cycle', 'item', 'context', 'dead_letter', 'pace'].map((table) => `dispatch_${table}`)
  await bus.sql('alter table holdfast.dispatch_config drop constraint dispatch_config_item_type_check')
  for (const table of tables) {
    await bus.sql(
      `update holdfast.${table} set item_type = substr(item_type, 9) where starts_with(item_type, 'default/')`,
    )
    await bus.sql(`delete from holdfast.${table} where item_type like '%/%'`)
  }
  for (const table of ['process', 'workflow']) {
    await bus.sql(
      `update holdfast.${table} set dispatch_type = substr(dispatch_type, 9) where dispatch_type like 'default/%'`,
    )
    await bus.sql(`update holdfast.${table} set dispatch_type = null where dispatch_type like '%/%'`)
  }
  await bus.sql(
    `alter table holdfast.dispatch_config add constraint dispatch_config_item_type_check check (item_type ~ '^[A-Za-z0-9_-]{1,100}$')`,
  )
}

test('U-01 types of items from before domains belong to `default`: items of every state go on, and none is started twice', async () => {
  const inside = gate()
  const runs: number[] = []
  const Settle = defineProcess('default', 'Settle', {
    state: z.object({ n: z.number() }),
    execute: async (ctx, { n }) => {
      await ctx.step('pay', async () => {
        runs.push(n)
        await inside.passed
      })
      return n
    },
  })
  const Own = defineDispatch('default', 'own', {
    target: processTarget(Settle),
    settings: { ...quick, maxDispatchRetries: 1 },
  })
  const flow = name()
  const Flow = defineWorkflow('test', flow).step('pay', `pay ${flow}`).build()
  const Graph = defineDispatch('default', 'graph', { target: workflowTarget(Flow), settings: quick })
  const { target, started, states, answers } = engine()
  const Remote = defineDispatch('default', 'remote', {
    context: z.object({}),
    target,
    settings: { ...quick, staleClaimThreshold: '60ms' },
  })

  // Own engine: one is executed, one is a dead letter, one was cancelled, one is not due.
  const running = await bus.hf.schedule(Own, { key: 'running', context: { n: 1 }, startAt: past })
  await bus.hf.schedule(Own, { key: 'dead', context: { n: 2 }, startAt: past })
  await bus.sql(`delete from holdfast.dispatch_context where item_id = 'dead'`)
  const asOld = (type: string) =>
    bus.sql(
      `update holdfast.dispatch_item set execution_id = 'exec:' || substr(item_type, 9) || ':' || item_id || ':0'
       where item_type = $1 and status = 'READY'`,
      [type],
    )
  await asOld(Own.name)
  await runDispatchCycle(bus.db, Own)
  const worker = await bus.runProcesses(Settle)
  await waitFor('it runs', () => runs.length === 1)
  await bus.hf.schedule(Own, [
    { key: 'later', context: { n: 3 }, startAt: four },
    { key: 'cancelled', context: { n: 4 }, startAt: four },
  ])
  await bus.hf.item(Own, 'cancelled').cancel(by)
  const graph = await bus.hf.schedule(Graph, { key: 'graph', context: {}, startAt: past })
  await asOld(Graph.name)
  await runDispatchCycle(bus.db, Graph)
  // Elsewhere: started, of unknown outcome, and refused (to be started again under the same id).
  answers.set('unknown', new Error('connection lost'))
  answers.set('refused', new PermanentError('not now'))
  await bus.hf.schedule(
    Remote,
    ['started', 'unknown', 'refused', 'reported'].map((key) => ({ key, context: {}, startAt: past })),
  )
  await asOld(Remote.name)
  await runDispatchCycle(bus.db, Remote)
  const standing = () =>
    bus.sql(
      `select item_id, execution_id, status from holdfast.dispatch_item where item_type like 'default/%' order by item_type, item_id`,
    )
  const idsBefore = await standing()
  await asBeforeDomains()

  const file = new URL('../../sql/migrations/0031_dispatch_domains.sql', import.meta.url)
  await bus.sql(await readFile(file, 'utf8'))

  expect(await standing()).toEqual(idsBefore)
  expect(await running.get()).toMatchObject({ status: 'DISPATCHED', executionId: 'exec:own:running:0' })
  expect(await bus.hf.dispatch.depth(Own)).toMatchObject({ READY: 1, DISPATCHED: 1, DEAD_LETTER: 1, FAILED: 1 })
  // The process that was running ends its item; nothing ran twice.
  inside.open()
  expect(await running.result()).toBe(1)
  expect(runs).toEqual([1])
  bus.hf.handle(`pay ${flow}`, async () => 'paid')
  const all = await bus.hf.run()
  expect(await graph.result()).toBe('paid')
  await all.stop()
  // What is elsewhere is asked about, reported, and started again under the ids it had.
  answers.clear()
  states.set('exec:remote:started:0', { status: 'COMPLETED' }).set('exec:remote:unknown:0', { status: 'RUNNING' })
  await bus.sql(`update holdfast.dispatch_item set check_at = holdfast.now() where check_at is not null`)
  await runDispatchChecks(bus.db, Remote)
  expect(await bus.hf.item(Remote, 'started').get()).toMatchObject({ status: 'COMPLETED' })
  expect(await bus.hf.item(Remote, 'unknown').get()).toMatchObject({ status: 'DISPATCHED' })
  expect(
    await bus.hf.dispatch.reportEnd(Remote, { executionId: 'exec:remote:reported:0', status: 'COMPLETED' }),
  ).toMatchObject([{ outcome: 'done' }])
  await bus.sql(`update holdfast.dispatch_item set due_at = holdfast.now() where item_id = 'refused'`)
  await runDispatchCycle(bus.db, Remote)
  expect(started.filter((id) => id !== 'exec:remote:refused:0')).toHaveLength(3)
  expect(started.filter((id) => id === 'exec:remote:refused:0')).toHaveLength(2)
  // A dead letter is retried, and its history begins before the change of name.
  await bus.hf.item(Own, 'dead').cancel(by)
  const history = (await bus.hf.item(Own, 'dead').history()).map(({ event }) => event)
  expect(history).toEqual(['START_FAILED', 'CANCELLED'])
  await worker.stop()
})
