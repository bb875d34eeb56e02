import { numbered, observeWorkflows, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { Duration } from '../kernel/duration/duration.js'
import { defineWorkflow } from './define.js'

let bus: TestBus
let other: TestBus
beforeAll(async () => {
  bus = await openTestBus()
  other = await openTestBus({ connectionString: bus.connectionString })
})
afterAll(() => Promise.all([bus.close(), other.close()]))

const by = { actor: 'ann', reason: 'test' }

/** With a rate of aging in the whole installation, until the test has ended. */
async function aging(rate: number): Promise<void> {
  const before = (await other.hf.workflows.settings()).aging
  await other.hf.workflows.configure({ aging: rate }, by)
  onTestFinished(() => other.hf.workflows.configure({ aging: before }, by))
}

const named = numbered('priority')
const flow = (handler: string, priority: number, delay: Duration = '0ms') =>
  defineWorkflow('test', `${handler} ${priority} ${delay}`).step('a', handler, { priority, delay }).build()
const queued = async (id: string) => (await bus.hf.workflow(id).steps())[0]?.queued

/** The order in which a worker with one slot runs what is queued for a handler. */
async function orderOf(on: TestBus, handler: string, count: number): Promise<unknown[]> {
  const order: unknown[] = []
  on.hf.handle(handler, (input) => void order.push(input))
  // Long enough that a lease never ends while the machine is busy: the step would lose its turn.
  const worker = await on.hf.run({ poll: '20ms', concurrency: 1, lease: '3s' })
  await waitFor('all ran', () => order.length === count)
  await worker.stop()
  on.hf.workflows.removeHandler(handler)
  return order
}

test('W-12 a priority of 10 shows 60 after 100 s and 100 after 180 s, and no more', async () => {
  const { id } = await bus.hf.start(flow(named(), 10))
  // Held still: a second more or less must not show.
  await bus.sql('update holdfast.workflow_step set scheduled_at = holdfast.now() where workflow_id = $1', [id])
  expect(await queued(id)).toMatchObject({ priority: 10, shownPriority: 10 })
  const shown: (number | undefined)[] = []
  for (const seconds of [100, 80, 500]) {
    await bus.moveClock(seconds * 1_000)
    shown.push((await queued(id))?.shownPriority)
  }
  expect(shown).toEqual([60, 100, 100])
})

test('W-12 a step that waits long enough overtakes more important ones: no step starves', async () => {
  const handler = named()
  const low = (n: number) => bus.hf.start(flow(handler, 10), `low ${n}`)
  const high = (n: number) => bus.hf.start(flow(handler, 60), `high ${n}`)
  await low(1)
  await high(1)
  await bus.moveClock(60_000)
  await high(2)
  await low(2)
  await bus.moveClock(60_000)
  // 120 s for the first: 10 + 60 against 60.
  await high(3)
  expect(await orderOf(bus, handler, 5)).toEqual(['high 1', 'high 2', 'low 1', 'high 3', 'low 2'])
})

test('W-12 the rate is fixed when an item is queued; without aging it is priority, then time', async () => {
  const handler = named()
  await aging(0)
  for (const [input, priority] of [
    ['low 1', 10],
    ['high 1', 60],
    ['high 2', 60],
    ['low 2', 10],
  ] as const) {
    await bus.hf.start(flow(handler, priority), input)
    await bus.moveClock(300_000)
  }
  const order = await orderOf(bus, handler, 4)
  expect(order).toEqual(['high 1', 'high 2', 'low 1', 'low 2'])
})

test('W-12 without aging the shown priority stays', async () => {
  await aging(0)
  const { id } = await bus.hf.start(flow(named(), 30))
  await bus.moveClock(300_000)
  expect(await queued(id)).toMatchObject({ priority: 30, shownPriority: 30 })
})

test('W-12 K-12 the rate is one for the installation: what one client sets, every client queues with, and it is on record', async () => {
  expect((await bus.hf.workflows.settings()).aging).toBe(0.5)
  await aging(2)
  const handler = named()
  const startAt = new Date(Date.now() + 3_600_000)
  const started = await bus.hf.start(flow(handler, 10))
  const later = await bus.hf.start(flow(handler, 10), null, { startAt })
  const rates = await bus.sql('select aging from holdfast.workflow_step where workflow_id = any ($1)', [
    [started.id, later.id],
  ])
  expect(rates).toEqual([{ aging: 2 }, { aging: 2 }])
  const [audit] = await bus.sql(
    `select actor, reason, before, after from holdfast.audit where subject_name = 'aging' order by at desc limit 1`,
  )
  expect(audit).toEqual({ ...by, before: { aging: 0.5 }, after: { aging: 2 } })
  await expect(bus.hf.workflows.configure({ aging: -1 }, by)).rejects.toMatchObject({ code: 'HF_INVALID_OPTION' })
})

test('W-12 one order over all handlers of a worker', async () => {
  const name = named()
  const order: string[] = []
  for (const handler of ['x', 'y']) bus.hf.handle(`${name} ${handler}`, (input) => void order.push(String(input)))
  for (const [handler, priority] of [
    ['x', 10],
    ['y', 90],
    ['x', 50],
    ['y', 30],
  ] as const) {
    await bus.hf.start(flow(`${name} ${handler}`, priority), `${handler} ${priority}`)
  }
  const worker = await bus.hf.run({ poll: '20ms', concurrency: 1 })
  await waitFor('all ran', () => order.length === 4)
  await worker.stop()
  expect(order).toEqual(['y 90', 'x 50', 'y 30', 'x 10'])
})

test('W-12 delayed items are not claimed early, however important, and wait from when they are due', async () => {
  const handler = named()
  const { id } = await bus.hf.start(flow(handler, 100, '1h'), 'delayed')
  await bus.hf.start(flow(handler, 0), 'now')
  expect(await orderOf(bus, handler, 1)).toEqual(['now'])
  await bus.moveClock(3_000_000)
  expect((await queued(id))?.shownPriority).toBe(100)
  const second = await bus.hf.start(flow(handler, 10, '1h'))
  await bus.moveClock(3_500_000)
  expect((await queued(second.id))?.shownPriority).toBe(10)
  expect(await orderOf(bus, handler, 1)).toEqual(['delayed'])
})

test('W-12 a step that a worker releases, or that another takes over, keeps its place', async () => {
  const handler = named()
  const see = observeWorkflows(bus)
  const { id } = await bus.hf.start(flow(handler, 10), 'first')
  const before = await bus.sql('select rank, scheduled_at from holdfast.workflow_step where workflow_id = $1', [id])
  bus.hf.handle(handler, () => new Promise(() => undefined))
  const worker = await bus.hf.run({ poll: '20ms', concurrency: 1 })
  await see.untilStep(id, 'a', 'RUNNING')
  worker.stopNow()
  bus.hf.workflows.removeHandler(handler)
  await see.endLease(id, 'a')
  const after = await bus.sql('select rank, scheduled_at from holdfast.workflow_step where workflow_id = $1', [id])
  expect(after).toEqual(before)
  await bus.hf.start(flow(handler, 10), 'second')
  expect(await orderOf(bus, handler, 2)).toEqual(['first', 'second'])
})

test('W-12 a claim goes through its indexes, and reads no more pages with a hundred times the backlog', async () => {
  const handler = named()
  const client = new pg.Client({ connectionString: bus.connectionString })
  await client.connect()
  const CLAIM = `select * from holdfast.claim_workflow_steps(array[$1], 'w', 20, 60000, 60000, false, 1000)`
  const fill = (count: number) =>
    client.query(
      `insert into holdfast.workflow_step (workflow_id, number, definition_id, name, status, handler, due_at, ready,
         scheduled_at, priority, aging, rank, reached_at)
       select gen_random_uuid(), 0, 1, 'a', 'PENDING', $1, at, at <= holdfast.now(), at, n % 100, 0.5,
         holdfast.workflow_rank(at, n % 100, 0.5), holdfast.now()
       from generate_series(1, $2::int) as n
       cross join lateral (select holdfast.now() + case when n % 2 = 0 then interval '1 day' else interval '-1 s' end) as it (at)`,
      [handler, count],
    )
  const pages = async () => {
    await client.query('analyze holdfast.workflow_step')
    const seen: number[] = []
    for (let n = 0; n < 5; n += 1) {
      const { rows } = await client.query(`explain (analyze, buffers, format json) ${CLAIM}`, [handler])
      const [{ Plan: plan }] = rows[0]['QUERY PLAN']
      seen.push(plan['Shared Hit Blocks'] + plan['Shared Read Blocks'])
    }
    return seen.sort((a, b) => a - b)[2] ?? 0
  }
  await fill(600)
  await pages()
  const small = await pages()
  await fill(60_000)
  const large = await pages()
  expect(large).toBeLessThan(small * 2)
  const { rows } = await client.query(
    `explain select workflow_id from holdfast.workflow_step
     where handler = $1 and ready order by rank, scheduled_at limit 20 for no key update skip locked`,
    [handler],
  )
  const plan = rows.map((line) => line['QUERY PLAN']).join('\n')
  expect(plan).toMatch(/Index Scan using workflow_step_ready/)
  expect(plan).not.toMatch(/Sort/)
  await client.end()
  // Filling the table is what takes long on a busy machine.
}, 120_000)
