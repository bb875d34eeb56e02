import { holdAt, numbered, openTestBus, runDispatchCycle, type TestBus, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import type { MetricLabels, Metrics } from '../kernel/metrics/metrics.js'
import { defineProcess } from '../processes/index.js'
import { defineDispatch } from './define.js'
import type { DispatchSettings } from './settings.js'
import { processTarget } from './targets/process.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'ticket 7' }
const itemType = numbered('cycle')
const past = new Date('2020-01-01T00:00:00Z')
const Settle = defineProcess('cycle', 'Settle', { state: z.object({ n: z.number() }), execute: async () => undefined })
const AT_ONCE = { dispatchInterval: 0, jitterWindow: 0 } as const

function settlement(config: DispatchSettings = AT_ONCE) {
  return defineDispatch(itemType(), 'Items', { target: processTarget(Settle), settings: config })
}

const items = (count: number, startAt = past) =>
  Array.from({ length: count }, (_, n) => ({ key: `PAY-${n}`, context: { n }, startAt }))

const executions = (type: string) =>
  bus.sql<{ key: string; status: string; due_at: Date | null; start_at: Date; state: object }>(
    `select key, status, due_at, start_at, state from holdfast.process
     join holdfast.process_detail using (id) where dispatch_type = $1 order by key`,
    [type],
  )

const inMinutes = async (minutes: number) => {
  const [row] = await bus.sql<{ at: Date }>(
    `select date_trunc('milliseconds', holdfast.now()) + $1 * interval '1 minute' as at`,
    [minutes],
  )
  return row?.at ?? past
}

test('D-03 a cycle releases one batch, in the order of time and then of scheduling', async () => {
  const Settlement = settlement({ ...AT_ONCE, batchSize: 3 })
  await bus.hf.schedule(Settlement, items(5))
  await bus.hf.schedule(Settlement, {
    key: 'earlier',
    context: { n: 9 },
    startAt: new Date(past.getTime() - 1),
  })
  await runDispatchCycle(bus.db, Settlement)
  const { items: released } = await bus.hf.dispatch.list({ domain: Settlement.domain, status: 'DISPATCHED' })
  expect(released.map(({ key }) => key).sort()).toEqual(['PAY-0', 'PAY-1', 'earlier'])
  expect(new Set(released.map(({ batch }) => batch)).size).toBe(1)
})

test('D-05 a batch is started by one statement: the executions exist exactly when the items are DISPATCHED', async () => {
  const Settlement = settlement()
  await bus.hf.schedule(Settlement, items(500))
  const held = holdAt('after dispatch.release')
  const watched = await openTestBus({ connectionString: bus.connectionString, faults: held.faults })
  const cycle = runDispatchCycle(watched.db, Settlement)
  await held.reached
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 500, READY: 0 })
  expect(await executions(Settlement.name)).toHaveLength(500)
  held.release()
  await cycle
  await watched.close()
})

test('D-05 the executed code knows nothing of the dispatcher: its context is its state', async () => {
  const Settlement = settlement()
  await bus.hf.schedule(Settlement, { key: 'PAY-1', context: { n: 7 }, startAt: past })
  await runDispatchCycle(bus.db, Settlement)
  expect(await executions(Settlement.name)).toMatchObject([
    { key: `exec:${Settlement.name}:PAY-1:0`, status: 'PENDING', state: { n: 7 } },
  ])
  const item = await bus.hf.item(Settlement, 'PAY-1').get()
  expect(item).toMatchObject({ executionId: `exec:${Settlement.name}:PAY-1:0`, batch: expect.any(String) })
  expect(item.claimedAt).toEqual(item.dispatchedAt)
})

test('D-03 cycles of one item type never overlap: a second dispatcher finds nothing to claim, and one that lost its lease releases nothing', async () => {
  const Settlement = settlement({ ...AT_ONCE, batchSize: 2 })
  await bus.hf.schedule(Settlement, items(4))
  const held = holdAt('before dispatch.release')
  const slow = await openTestBus({ connectionString: bus.connectionString, faults: held.faults })
  const zombie = runDispatchCycle(slow.db, Settlement)
  await held.reached
  const claims = await bus.sql<{ items: object[] }>(
    `select items from holdfast.claim_dispatch_cycles(array[$1], 'other', 10, 30000, false, 1000)`,
    [Settlement.name],
  )
  expect(claims).toEqual([{ items: [] }])
  // The lease passes on; the first wakes up and must not release anything.
  await runDispatchCycle(bus.db, Settlement)
  held.release()
  await zombie
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 2, READY: 2 })
  await slow.close()
})

test('D-03 batches are disjoint even if two dispatchers run: items that another one has claimed are skipped', async () => {
  const Settlement = settlement({ ...AT_ONCE, batchSize: 3 })
  await bus.hf.schedule(Settlement, items(6))
  const other = new pg.Client({ connectionString: bus.connectionString })
  await other.connect()
  await other.query('begin')
  const inHand = `select from holdfast.dispatch_item where item_type = $1 order by due_at, seq limit 3 for no key update`
  await other.query(inHand, [Settlement.name])
  await runDispatchCycle(bus.db, Settlement)
  await other.query('commit')
  await other.end()
  const { items: released } = await bus.hf.dispatch.list({ domain: Settlement.domain, status: 'DISPATCHED' })
  expect(released.map(({ key }) => key).sort()).toEqual(['PAY-3', 'PAY-4', 'PAY-5'])
})

test('D-04 no item is released before its time', async () => {
  const Settlement = settlement()
  await bus.hf.schedule(Settlement, items(3, await inMinutes(10)))
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ READY: 3 })
})

test('D-04 a buffer of thirty minutes claims ahead, and starts nothing thirty minutes early', async () => {
  const Settlement = settlement({ ...AT_ONCE, preStartBuffer: '30m', jitterWindow: 1_000 })
  const at = await inMinutes(10)
  await bus.hf.schedule(Settlement, items(20, at))
  await bus.hf.schedule(Settlement, { key: 'far', context: { n: 0 }, startAt: await inMinutes(40) })
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 20, READY: 1 })
  const starts = (await executions(Settlement.name)).map(({ start_at, due_at }) => {
    expect(due_at).toEqual(start_at)
    return start_at.getTime() - at.getTime()
  })
  expect(Math.min(...starts)).toBeGreaterThanOrEqual(0)
  expect(Math.max(...starts)).toBeLessThanOrEqual(1_000)
  // Spread, not all at once.
  expect(new Set(starts).size).toBeGreaterThan(10)
})

test('D-04 the kill switch stops at once, holds back executions that were started ahead and have not begun, and loses nothing', async () => {
  const ran: number[] = []
  const Pay = defineProcess('cycle-kill', 'Pay', {
    state: z.object({ n: z.number() }),
    execute: async (_ctx, state) => void ran.push(state.n),
  })
  const Settlement = defineDispatch(itemType(), 'Items', {
    target: processTarget(Pay),
    settings: { ...AT_ONCE, preStartBuffer: '60m', batchSize: 10 },
  })
  await bus.hf.schedule(Settlement, items(30, await inMinutes(30)))
  await runDispatchCycle(bus.db, Settlement)
  expect(await executions(Settlement.name)).toHaveLength(10)
  await bus.hf.dispatch.pause(Settlement, by)
  expect((await executions(Settlement.name)).every(({ due_at }) => due_at === null)).toBe(true)
  bus.hf.register(Settlement)
  const worker = await bus.runProcesses(Pay, { domains: [Pay.domain, Settlement.domain] })
  await bus.moveClock(31 * 60_000)
  // A process that nobody dispatched goes on: it is the item type that is switched off, not the definition.
  await bus.hf.start(Pay, { n: -1 }, { immediate: false })
  await waitFor('the other one ran', () => ran.includes(-1))
  await waitFor('a cycle has looked', async () => {
    const [row] = await bus.sql<{ ran: boolean }>(
      `select last_run_at > updated_at + interval '30 minutes' as ran from holdfast.dispatch_cycle join holdfast.dispatch_config using (item_type) where item_type = $1`,
      [Settlement.name],
    )
    return row?.ran
  })
  expect(ran).toEqual([-1])
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 10, READY: 20 })
  await bus.hf.dispatch.resume(Settlement, by)
  await waitFor('all are completed', async () => (await bus.hf.dispatch.depth(Settlement)).COMPLETED === 30)
  expect(ran.sort((a, b) => a - b)).toEqual([-1, ...Array.from({ length: 30 }, (_, n) => n)])
  await worker.stop()
  await bus.moveClock(0)
})

test('D-04 the kill switch works the same by plain SQL, and it waits for a release that is under way', async () => {
  const Settlement = settlement({ ...AT_ONCE, jitterWindow: 60_000 })
  await bus.hf.schedule(Settlement, items(5))
  const client = new pg.Client({ connectionString: bus.connectionString })
  await client.connect()
  await client.query('begin')
  const request = {
    type: Settlement.name,
    epoch: 0,
    batch: crypto.randomUUID(),
    most: 5,
    execType: 'cycle/Settle',
    version: 1,
    contextVersion: 1,
    redirected: false,
  }
  await client.query('select holdfast.release_dispatch_items($1::jsonb, null, null, null)', [JSON.stringify(request)])
  const off = bus.sql('update holdfast.dispatch_config set enabled = false where item_type = $1', [Settlement.name])
  await waitFor(
    'the switch waits',
    async () =>
      (await bus.sql(`select from pg_stat_activity where wait_event_type = 'Lock' and query like '%enabled = false%'`))
        .length > 0,
  )
  await client.query('commit')
  await off
  await client.end()
  expect((await executions(Settlement.name)).map(({ due_at }) => due_at)).toEqual([null, null, null, null, null])
})

test('D-07 an execution id that other work has is not taken for the item’s own: the next id is tried', async () => {
  const Settlement = settlement()
  await bus.hf.start(Settle, { n: 0 }, { immediate: false, key: `exec:${Settlement.name}:PAY-0:0` })
  await bus.hf.schedule(Settlement, items(2))
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.item(Settlement, 'PAY-0').get()).toMatchObject({
    status: 'READY',
    retryCount: 1,
    lastError: expect.stringContaining('EXECUTION_ID_TAKEN'),
  })
  expect(await bus.hf.item(Settlement, 'PAY-1').get()).toMatchObject({ status: 'DISPATCHED' })
  await bus.sql(`update holdfast.dispatch_item set due_at = exec_time where item_type = $1 and due_at is not null`, [
    Settlement.name,
  ])
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.item(Settlement, 'PAY-0').get()).toMatchObject({
    status: 'DISPATCHED',
    executionId: `exec:${Settlement.name}:PAY-0:1`,
  })
})

test('D-07 an execution that exists already counts as started, and one that has ended ends its item', async () => {
  const Settlement = settlement()
  await bus.hf.schedule(Settlement, items(3))
  await runDispatchCycle(bus.db, Settlement)
  await bus.sql(
    `update holdfast.process set status = 'COMPLETED', due_at = null where dispatch_type = $1 and id = (select id from holdfast.process_detail where key = $2)`,
    [Settlement.name, `exec:${Settlement.name}:PAY-0:0`],
  )
  // Somebody's hand, or a restored backup.
  await bus.sql(`update holdfast.dispatch_item set status = 'READY', due_at = exec_time where item_type = $1`, [
    Settlement.name,
  ])
  await runDispatchCycle(bus.db, Settlement)
  expect(await executions(Settlement.name)).toHaveLength(3)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ COMPLETED: 1, DISPATCHED: 2 })
})

test('D-08 a missing context fails that item, not the batch', async () => {
  const Settlement = settlement()
  await bus.hf.schedule(Settlement, items(5))
  await bus.sql(`delete from holdfast.dispatch_context where item_type = $1 and item_id = 'PAY-2'`, [Settlement.name])
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 4, READY: 1 })
  expect(await bus.hf.item(Settlement, 'PAY-2').get()).toMatchObject({
    retryCount: 1,
    lastError: 'CONTEXT_MISSING: the context of the item is missing',
  })
})

test('D-08 an item that makes the statement fail is found, and fails alone', async () => {
  const Settlement = settlement({ ...AT_ONCE, batchSize: 16, maxDispatchRetries: 2 })
  await bus.hf.schedule(Settlement, items(40))
  await bus.sql(`
    create function poison() returns trigger language plpgsql as $$
    begin
      if new.dispatch_item = 'PAY-21' then raise exception 'this one does not go in'; end if;
      return new;
    end $$`)
  await bus.sql(`create trigger poison before insert on holdfast.process_detail for each row execute function poison()`)
  for (let cycle = 0; cycle < 12; cycle += 1) {
    await bus.sql(`update holdfast.dispatch_item set due_at = exec_time where item_type = $1 and due_at is not null`, [
      Settlement.name,
    ])
    await runDispatchCycle(bus.db, Settlement)
  }
  await bus.sql('drop trigger poison on holdfast.process_detail')
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 39, DEAD_LETTER: 1 })
  expect(
    (await bus.hf.trouble.list({ model: 'dispatch', domain: Settlement.domain, type: Settlement.type })).items,
  ).toMatchObject([{ key: 'PAY-21', message: 'this one does not go in' }])
})

test('D-09 one summary per batch, and a line for each failure, with the status before and after', async () => {
  const Settlement = settlement({ ...AT_ONCE, batchSize: 3 })
  await bus.hf.schedule(Settlement, items(4))
  await bus.sql(`delete from holdfast.dispatch_context where item_type = $1 and item_id = 'PAY-0'`, [Settlement.name])
  await runDispatchCycle(bus.db, Settlement)
  const { batch: batchId } = await bus.hf.item(Settlement, 'PAY-1').get()
  const batches = (await bus.hf.auditTrail({ name: Settlement.name })).filter(({ event }) => event === 'BATCH')
  expect(batches).toMatchObject([
    {
      before: { status: 'READY' },
      after: { status: 'DISPATCHED' },
      detail: { batchId, claimed: 3, started: 2, startFailures: 1, deadLetters: 0 },
    },
  ])
  expect(await bus.hf.auditTrail({ name: `${Settlement.name}/PAY-0` })).toMatchObject([
    {
      event: 'START_FAILED',
      before: { status: 'DISPATCHED' },
      after: { status: 'READY' },
      detail: { batchId, retryCount: 1 },
    },
  ])
  await runDispatchCycle(bus.db, Settlement)
  await runDispatchCycle(bus.db, Settlement)
  // A cycle that releases nothing leaves no line.
  expect((await bus.hf.auditTrail({ name: Settlement.name })).filter(({ event }) => event === 'BATCH')).toHaveLength(2)
})

test('D-09 metrics: claimed, started, failures, dead letters, how long a cycle takes, depth by status', async () => {
  const counts = new Map<string, number>()
  const note = (name: string, { status }: MetricLabels, value: number) => {
    const full = status ? `${name} ${status}` : name
    counts.set(full, (counts.get(full) ?? 0) + value)
  }
  const metrics: Metrics = {
    count: (name, labels, value = 1) => labels.model === 'dispatch' && note(name, labels, value),
    observe: (name, labels) => labels.model === 'dispatch' && note(name, labels, 1),
    gauge: (name, labels, value) => name === 'dispatch_depth' && counts.set(`${name} ${labels.status}`, value),
  }
  const measured = await openTestBus({ connectionString: bus.connectionString, metrics })
  const Settlement = settlement({ ...AT_ONCE, maxDispatchRetries: 1 })
  await bus.hf.schedule(Settlement, items(4))
  await bus.sql(`delete from holdfast.dispatch_context where item_type = $1 and item_id = 'PAY-0'`, [Settlement.name])
  measured.hf.register(Settlement)
  measured.hf.register(defineProcess('cycle', 'Bystander', { state: z.any(), execute: async () => undefined }))
  const worker = await measured.hf.run({ domains: [Settlement.domain], poll: '20ms' })
  await waitFor('the depth was measured', () => counts.has('dispatch_depth DEAD_LETTER'))
  await worker.stop()
  expect(Object.fromEntries(counts)).toMatchObject({
    dispatch_claimed: 4,
    dispatch_started: 3,
    dispatch_start_failures: 1,
    dispatch_dead_letters: 1,
    dispatch_cycle_milliseconds: expect.any(Number),
    'dispatch_depth READY': 0,
    'dispatch_depth DISPATCHED': 3,
    'dispatch_depth DEAD_LETTER': 1,
  })
  await measured.close()
})

test('D-11 live executions are limited to the batches in flight: executions that have not begun hold back the next release', async () => {
  const Settlement = settlement({ ...AT_ONCE, batchSize: 10, maxBatchesAhead: 2 })
  await bus.hf.schedule(Settlement, items(100))
  for (let cycle = 0; cycle < 6; cycle += 1) await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 20, READY: 80 })
  // Five of them begin.
  await bus.sql(
    `update holdfast.process set lease_epoch = 1, leased_by = 'w', leased_at = holdfast.now()
     where id in (select id from holdfast.process where dispatch_type = $1 limit 5)`,
    [Settlement.name],
  )
  await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 25, READY: 75 })
})

test('D-11 a worker releases and executes all of a backlog, batch after batch', async () => {
  const seen = { most: 0 }
  const Quick = defineProcess('cycle-backlog', 'Quick', {
    state: z.object({ n: z.number() }),
    execute: async () => undefined,
  })
  const Settlement = defineDispatch(itemType(), 'Items', {
    target: processTarget(Quick),
    settings: { ...AT_ONCE, batchSize: 50, maxBatchesAhead: 2 },
  })
  await bus.hf.schedule(Settlement, items(600))
  bus.hf.register(Settlement)
  const worker = await bus.runProcesses(Quick, { domains: [Quick.domain, Settlement.domain], concurrency: 20 })
  await waitFor('all are completed', async () => {
    const [row] = await bus.sql<{ live: number }>(
      `select count(*)::int as live from holdfast.process where dispatch_type = $1 and status = 'PENDING' and leased_at is null`,
      [Settlement.name],
    )
    seen.most = Math.max(seen.most, row?.live ?? 0)
    return (await bus.hf.dispatch.depth(Settlement)).COMPLETED === 600
  })
  expect(seen.most).toBeLessThanOrEqual(100)
  expect(await bus.sql('select from holdfast.dispatch_context where item_type = $1', [Settlement.name])).toHaveLength(0)
  await worker.stop()
})

test('D-03 an interval is from the beginning of one cycle to that of the next; an item that falls due ends an idle wait early', async () => {
  const due = async (type: string) => {
    const [row] = await bus.sql<{ ms: number }>(
      `select extract(epoch from due_at - last_run_at)::float8 * 1000 as ms from holdfast.dispatch_cycle where item_type = $1`,
      [type],
    )
    return row?.ms ?? 0
  }
  const Steady = settlement({ dispatchInterval: '60s', batchSize: 1 })
  await bus.hf.schedule(Steady, items(3))
  await runDispatchCycle(bus.db, Steady)
  expect(await due(Steady.name)).toBeGreaterThan(30_000)
  expect(await due(Steady.name)).toBeLessThanOrEqual(60_000)
  const Eager = settlement()
  await bus.hf.schedule(Eager, items(1, new Date((await inMinutes(0)).getTime() + 60_000)))
  await runDispatchCycle(bus.db, Eager)
  expect(await due(Eager.name)).toBeCloseTo(1_000, -1)
})
