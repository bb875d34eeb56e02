import {
  failsWithin,
  numbered,
  observeWorkflows,
  openTestBus,
  startFaultProxy,
  type TestBus,
} from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Holdfast } from '../holdfast.js'
import { assemble } from '../holdfast.js'
import { openDatabase } from '../kernel/database/open.js'
import { BusinessError } from '../kernel/failure/failure-errors.js'
import { defineWorkflow } from './define.js'

let bus: TestBus
let see: ReturnType<typeof observeWorkflows>
beforeAll(async () => {
  bus = await openTestBus()
  see = observeWorkflows(bus)
})
afterAll(() => bus.close())

const named = numbered('in time')
const by = { actor: 'ann', reason: 'test' }

/** An instance that waits for a person, one in the DLQ, and one whose step waits for its retry. */
async function waiting() {
  const name = named()
  bus.hf.handle(`${name} no`, () => {
    throw new BusinessError('no')
  })
  bus.hf.handle(`${name} later`, () => {
    throw new Error('not yet')
  })
  const worker = await bus.hf.run({ poll: '20ms' })
  const ask = await bus.hf.start(defineWorkflow('test', `${name} ask`).waitHumanConfirm('ok').build())
  const dead = await bus.hf.start(defineWorkflow('test', `${name} dead`, { dlq: true }).step('a', `${name} no`).build())
  const later = await bus.hf.start(
    defineWorkflow('test', `${name} later`)
      .step('a', `${name} later`, { retry: ['1h'] })
      .build(),
  )
  await see.until(dead.id, 'DLQ')
  await see.untilStep(ask.id, 'ok', 'WAITING_DECISION')
  await see.untilStep(later.id, 'a', 'PENDING')
  await worker.stop()
  return { ask: ask.id, dead: dead.id, later: later.id }
}

type Instances = Awaited<ReturnType<typeof waiting>>

const calls: Record<string, (hf: Holdfast, on: Instances) => Promise<unknown>> = {
  decide: (hf, { ask }) => hf.workflow(ask).decide('ok', 'confirm', by),
  cancel: (hf, { ask }) => hf.workflow(ask).cancel(by),
  abort: (hf, { ask }) => hf.workflow(ask).cancel(by, { compensate: false }),
  requeue: (hf, { dead }) => hf.workflow(dead).retry(by),
  retry: (hf, { later }) => hf.workflow(later).retry(by, { step: 'a' }),
}

const LONGEST = 6_000

const events = async ({ ask, dead, later }: Instances) =>
  Object.fromEntries(await Promise.all([ask, dead, later].map(async (id) => [id, await see.lines(id)] as const)))

describe('K-23 an operator’s call on a workflow', () => {
  test('ends within 5 s while the database is unreachable, and has no effect later', async () => {
    const on = await waiting()
    const before = await events(on)
    const proxy = await startFaultProxy(bus.connectionString)
    const db = await openDatabase({ connectionString: proxy.connectionString })
    const far = assemble(db, {})
    proxy.refuse(true)
    proxy.cut()
    const errors = await Promise.all(Object.values(calls).map((call) => failsWithin(LONGEST, call(far, on))))
    for (const error of errors) expect(error).toMatchObject({ code: 'HF_DATABASE_UNAVAILABLE' })
    proxy.refuse(false)
    // The way back is open: what was still on its way would be done by now.
    expect((await far.workflow(on.ask).get()).status).toBe('RUNNING')
    expect(await events(on)).toEqual(before)
    await far.close()
    await proxy.close()
  })

  test('ends within 5 s while the network hangs, and has no effect later', async () => {
    const on = await waiting()
    const before = await events(on)
    const proxy = await startFaultProxy(bus.connectionString)
    const db = await openDatabase({ connectionString: proxy.connectionString })
    const far = assemble(db, {})
    await far.workflow(on.ask).get()
    proxy.hang(true)
    for (const error of await Promise.all(Object.values(calls).map((call) => failsWithin(LONGEST, call(far, on))))) {
      expect(error).toMatchObject({ code: expect.stringMatching(/^HF_(BUSY|DATABASE_UNAVAILABLE)$/) })
    }
    proxy.hang(false)
    proxy.cut()
    expect((await far.workflow(on.ask).get()).status).toBe('RUNNING')
    expect(await events(on)).toEqual(before)
    await far.close()
    await proxy.close()
  })

  test('is refused with HF_BUSY within 5 s where another transaction has locked the instance or its step, and has no effect later', async () => {
    const on = await waiting()
    const before = await events(on)
    const client = new pg.Client({ connectionString: bus.connectionString })
    await client.connect()
    onTestFinished(() => client.end())
    for (const table of ['workflow where id', 'workflow_step where workflow_id']) {
      await client.query('begin')
      await client.query(`select from holdfast.${table} = any ($1) for update`, [[on.ask, on.dead, on.later]])
      const held = table.startsWith('workflow ')
        ? Object.entries(calls).filter(([name]) => name !== 'retry')
        : Object.entries(calls)
      for (const error of await Promise.all(held.map(([, call]) => failsWithin(LONGEST, call(bus.hf, on))))) {
        expect(error).toMatchObject({ code: 'HF_BUSY' })
      }
      await client.query('rollback')
    }
    expect(await events(on)).toEqual(before)
    expect(await bus.hf.trouble.retry([on.dead], by)).toMatchObject([{ id: on.dead, outcome: 'done' }])
  })

  test('many dead letters at once: the one whose instance is held says so, the others are requeued', async () => {
    const [first, second] = [await waiting(), await waiting()]
    const client = new pg.Client({ connectionString: bus.connectionString })
    await client.connect()
    onTestFinished(() => client.end())
    await client.query('begin')
    await client.query('select from holdfast.workflow where id = $1 for update', [first.dead])
    expect(await bus.hf.trouble.retry([first.dead, second.dead, first.dead], by)).toMatchObject([
      { id: first.dead, outcome: 'refused', code: 'HF_BUSY' },
      { id: second.dead, outcome: 'done' },
    ])
    await client.query('rollback')
  })
})

test('W-12 an operator’s retry of a step makes it due now in the order of claims, and keeps its attempts', async () => {
  const { later } = await waiting()
  const [read] = await bus.sql<{ at: Date }>('select holdfast.now() as at')
  await bus.hf.workflow(later).retry(by, { step: 'a' })
  const [row] = await bus.sql<{ scheduled_at: Date; rank: Date; ready: boolean; attempts: number }>(
    'select scheduled_at, rank, ready, attempts from holdfast.workflow_step where workflow_id = $1',
    [later],
  )
  expect(row).toMatchObject({ ready: true, attempts: 1 })
  const now = read?.at.getTime() ?? 0
  expect(Math.abs((row?.scheduled_at.getTime() ?? 0) - now)).toBeLessThan(10_000)
  // Priority 50 at half a point per second.
  expect(Math.abs((row?.rank.getTime() ?? 0) - now - 100_000)).toBeLessThan(10_000)
})
