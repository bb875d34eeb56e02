import { holdAt, numbered, openTestBus, runDispatchCycle, type TestBus, waitFor } from '@holdfast/testing/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { defineProcess } from '../processes/index.js'
import { defineWorkflow } from '../workflows/index.js'
import { type DispatchDefinition, defineDispatch } from './define.js'
import type { DispatchSettings } from './settings.js'
import { processTarget } from './targets/process.js'
import { workflowTarget } from './targets/workflow.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
  // Begins are noted where they are decided, by the database's clock.
  await bus.sql('create table public.begun (item_type text, at timestamptz)')
  await bus.sql(`
    create function note_begin() returns trigger language plpgsql as $$
    begin
      insert into public.begun values (new.dispatch_type, holdfast.now());
      return null;
    end $$`)
  await bus.sql(`
    create trigger note_begin after update on holdfast.process for each row
    when (new.dispatch_type is not null and old.leased_at is null and new.leased_at is not null and old.status = 'PENDING')
    execute function note_begin()`)
  await bus.sql(`
    create trigger note_begin after update on holdfast.workflow for each row
    when (new.dispatch_type is not null and old.status = 'PENDING' and new.status <> 'PENDING')
    execute function note_begin()`)
})
afterAll(() => bus.close())

const by = { actor: 'ann', reason: 'ticket 7' }
const name = numbered('rate')
const past = new Date('2020-01-01T00:00:00Z')
const items = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ key: `PAY-${n}`, context: { n }, startAt: past }))
const completed = async (Settlement: DispatchDefinition<never>) => (await bus.hf.dispatch.depth(Settlement)).COMPLETED

/** How many more began in some span than burst and rate allow; 0 or less is within the bound. */
async function worstExcess(itemType: string, { burst, rate }: { burst: number; rate: number }): Promise<number> {
  const rows = await bus.sql<{ ms: number }>(
    'select extract(epoch from at)::float8 * 1000 as ms from begun where item_type = $1 order by at',
    [itemType],
  )
  const times = rows.map(({ ms }) => ms)
  let worst = Number.NEGATIVE_INFINITY
  for (const [from, first] of times.entries()) {
    for (const [to, last] of times.slice(from).entries()) {
      worst = Math.max(worst, to + 1 - burst - (rate * (last - first)) / 1_000)
    }
  }
  return worst
}

const RATE = 20
const BURST = 3
/** What begins up to half a second after its slot, as on a busy machine. Without new slots it would be all that had waited. */
const SLACK = RATE * 0.5 + 1

async function limited(config: DispatchSettings = {}) {
  const domain = name()
  const rateLimitKey = `limit_${domain}`
  await bus.hf.limits.set(rateLimitKey, { ticketsPerSecond: RATE, burst: BURST }, by)
  const Settle = defineProcess(domain, 'Settle', { state: z.object({ n: z.number() }), execute: async () => undefined })
  const Settlement = defineDispatch(domain, 'Items', {
    target: processTarget(Settle),
    settings: { rateLimitKey, dispatchInterval: '1s', ...config },
  })
  bus.hf.register(Settlement)
  const work = () => bus.runProcesses(Settle, { concurrency: 50 })
  return { Settle, Settlement, work, definition: `${domain}/Settle` }
}

/** Whatever was released has missed its slot. */
async function standStill(): Promise<void> {
  const [row] = await bus.sql<{ ms: number }>(
    'select extract(epoch from shift)::float8 * 1000 as ms from holdfast.clock',
  )
  await bus.moveClock((row?.ms ?? 0) + 60_000)
}

test('D-14 what the kill switch held back gets new slots when release resumes', async () => {
  const { Settlement, work } = await limited()
  await bus.hf.schedule(Settlement, items(50))
  const worker = await work()
  await waitFor('some are completed', async () => (await completed(Settlement)) >= 5)
  await bus.hf.dispatch.pause(Settlement, by)
  await standStill()
  await bus.hf.dispatch.resume(Settlement, by)
  await waitFor('all are completed', async () => (await completed(Settlement)) === 50)
  expect(await worstExcess(Settlement.name, { burst: BURST, rate: RATE })).toBeLessThanOrEqual(SLACK)
  await worker.stop()
})

test('D-14 what a paused definition held back gets new slots when it is resumed', async () => {
  const { Settlement, work, definition } = await limited()
  await bus.hf.schedule(Settlement, items(50))
  const worker = await work()
  await waitFor('some are completed', async () => (await completed(Settlement)) >= 5)
  await bus.hf.pause({ definition }, by)
  await waitFor('executions wait', async () => (await bus.hf.dispatch.depth(Settlement)).DISPATCHED >= 15)
  await standStill()
  await bus.hf.resume({ definition }, by)
  await waitFor('all are completed', async () => (await completed(Settlement)) === 50)
  expect(await worstExcess(Settlement.name, { burst: BURST, rate: RATE })).toBeLessThanOrEqual(SLACK)
  await worker.stop()
})

test.each([
  ['any number at once', null],
  ['one of the definition at a time', 1],
])('D-14 after a time without workers the rate still holds; %s may execute', async (_how, limit) => {
  const { Settle, Settlement, work } = await limited()
  if (limit !== null) await bus.hf.processes.configure(Settle, { concurrency: limit }, by)
  await bus.hf.schedule(Settlement, items(40))
  for (let cycle = 0; cycle < 2; cycle += 1) await runDispatchCycle(bus.db, Settlement)
  expect((await bus.hf.dispatch.depth(Settlement)).DISPATCHED).toBeGreaterThan(15)
  await standStill()
  const worker = await work()
  await waitFor('all are completed', async () => (await completed(Settlement)) === 40)
  expect(await worstExcess(Settlement.name, { burst: BURST, rate: RATE })).toBeLessThanOrEqual(SLACK)
  await worker.stop()
})

test('D-14 without a rate limit batches that missed their time begin at the rate of batches, and the next one waits for them', async () => {
  const { Settlement, work } = await limited({ rateLimitKey: null, batchSize: 10, jitterWindow: 0 })
  await bus.hf.schedule(Settlement, items(50))
  for (let cycle = 0; cycle < 4; cycle += 1) await runDispatchCycle(bus.db, Settlement)
  expect(await bus.hf.dispatch.depth(Settlement)).toMatchObject({ DISPATCHED: 40, READY: 10 })
  await standStill()
  const worker = await work()
  await waitFor('all are completed', async () => (await completed(Settlement)) === 50)
  // One batch is the burst, and may begin up to a second late.
  expect(await worstExcess(Settlement.name, { burst: 10, rate: 10 })).toBeLessThanOrEqual(10)
  await worker.stop()
})

test('D-14 a type without a rate is not slowed down: late items begin at once', async () => {
  const { Settlement, work } = await limited({ rateLimitKey: null, dispatchInterval: 0, jitterWindow: 0 })
  await bus.hf.schedule(Settlement, items(30))
  await runDispatchCycle(bus.db, Settlement)
  const starts = () =>
    bus.sql('select start_at from holdfast.process join holdfast.process_detail using (id) where dispatch_type = $1', [
      Settlement.name,
    ])
  const before = await starts()
  await standStill()
  const worker = await work()
  await waitFor('all are completed', async () => (await completed(Settlement)) === 30)
  expect(await starts()).toEqual(before)
  await worker.stop()
})

test('D-14 workflows: instances that the kill switch held back, or that no worker took in time, get new slots', async () => {
  const workflow = name()
  const rateLimitKey = `limit_${workflow}`
  await bus.hf.limits.set(rateLimitKey, { ticketsPerSecond: RATE, burst: BURST }, by)
  const PayOut = defineWorkflow('test', workflow).step('pay', `pay ${workflow}`).build()
  const Payout = defineDispatch(workflow, 'Items', {
    target: workflowTarget(PayOut),
    settings: { rateLimitKey, dispatchInterval: '1s' },
  })
  bus.hf.handle(`pay ${workflow}`, () => undefined)
  bus.hf.register(Payout)
  await bus.hf.schedule(Payout, items(60))
  for (let cycle = 0; cycle < 2; cycle += 1) await runDispatchCycle(bus.db, Payout)
  expect((await bus.hf.dispatch.depth(Payout)).DISPATCHED).toBeGreaterThan(15)
  await standStill()
  const worker = await bus.hf.run({ domains: [Payout.domain], workflows: true, poll: '20ms', concurrency: 50 })
  await waitFor('some are completed', async () => (await completed(Payout)) >= 10)
  await bus.hf.dispatch.pause(Payout, by)
  const begun = async () => (await bus.sql('select from begun where item_type = $1', [Payout.name])).length
  const atPause = await begun()
  await standStill()
  await bus.hf.dispatch.resume(Payout, by)
  expect(await begun()).toBe(atPause)
  await waitFor('all are completed', async () => (await completed(Payout)) === 60)
  expect(await worstExcess(Payout.name, { burst: BURST, rate: RATE })).toBeLessThanOrEqual(SLACK)
  await worker.stop()
})

test('D-14 after pause has returned nothing begins: what a worker has claimed and not begun is released', async () => {
  const domain = name()
  const ran: number[] = []
  const Settle = defineProcess(domain, 'Settle', {
    state: z.object({ n: z.number() }),
    execute: async (_ctx, { n }) => void ran.push(n),
  })
  const Settlement = defineDispatch(domain, 'Items', {
    target: processTarget(Settle),
    settings: { dispatchInterval: 0, jitterWindow: 0 },
  })
  await bus.hf.schedule(Settlement, items(20))
  await runDispatchCycle(bus.db, Settlement)
  const held = holdAt('after processes.claim')
  const slow = await openTestBus({ connectionString: bus.connectionString, faults: held.faults })
  const worker = await slow.runProcesses(Settle, { concurrency: 10 })
  await held.reached
  await bus.hf.dispatch.pause(Settlement, by)
  held.release()
  // It has given them back by then, and claims go on: one that nobody dispatched is executed.
  await bus.hf.start(Settle, { n: -1 }, { immediate: false })
  await waitFor('the other one ran', () => ran.includes(-1))
  await waitFor('nothing is leased', async () => {
    const leased = 'select from holdfast.process where dispatch_type = $1 and leased_at is not null'
    return (await bus.sql(leased, [Settlement.name])).length === 0
  })
  expect(ran).toEqual([-1])
  await bus.hf.dispatch.resume(Settlement, by)
  await waitFor('all are completed', async () => (await completed(Settlement)) === 20)
  expect(ran).toHaveLength(21)
  await worker.stop()
  await slow.close()
})

test('D-04 the kill switch does not affect executions that have begun: running, waiting, crashed or interrupted', async () => {
  const domain = name()
  const calls = new Map<string, number>()
  let open = false
  const Settle = defineProcess(domain, 'Settle', {
    state: z.object({ kind: z.string() }),
    responses: { go: { data: z.object({}) } },
    async execute(ctx, { kind }) {
      await ctx.step('call', async () => {
        calls.set(kind, (calls.get(kind) ?? 0) + 1)
        if (kind === 'running') await waitFor('the test lets it go on', () => open)
      })
      if (kind === 'waiting') await ctx.event('go', 'go')
    },
  })
  const Settlement = defineDispatch(domain, 'Items', {
    target: processTarget(Settle),
    settings: { dispatchInterval: 0, jitterWindow: 0 },
  })
  const kinds = ['running', 'waiting', 'crashed', 'interrupted']
  await bus.hf.schedule(
    Settlement,
    kinds.map((kind) => ({ key: kind, context: { kind }, startAt: past })),
  )
  await runDispatchCycle(bus.db, Settlement)
  const key = (kind: string) => `exec:${Settlement.name}:${kind}:0`
  const claimed = `(select id from holdfast.process_detail where key = $1)`
  // One whose worker died after its claim, and one that an orderly stop interrupted: both have begun.
  await bus.sql(
    `update holdfast.process set lease_epoch = 1, leased_by = 'dead', leased_at = holdfast.now(), due_at = holdfast.now() + interval '1 hour'
     where id = ${claimed}`,
    [key('crashed')],
  )
  await bus.sql(
    `update holdfast.process set lease_epoch = 2, rested_epoch = 2, due_at = holdfast.now() + interval '1 hour' where id = ${claimed}`,
    [key('interrupted')],
  )
  const worker = await bus.runProcesses(Settle)
  await waitFor('two have begun', () => calls.size === 2)
  await waitFor(
    'one waits',
    async () => (await bus.hf.process(Settle, key('waiting')).get()).status === 'WAITING_FOR_ASYNC',
  )
  const due = () =>
    bus.sql(
      'select key, due_at, lease_epoch from holdfast.process join holdfast.process_detail using (id) where dispatch_type = $1 order by key',
      [Settlement.name],
    )
  const before = await due()
  await bus.hf.dispatch.pause(Settlement, by)
  expect((await due()).map((row) => row.due_at === null)).toEqual(before.map((row) => row.due_at === null))
  await bus.sql(`update holdfast.process set due_at = holdfast.now() where id = ${claimed}`, [key('crashed')])
  await bus.sql(`update holdfast.process set due_at = holdfast.now() where id = ${claimed}`, [key('interrupted')])
  await bus.hf.process(Settle, key('waiting')).respond('go', {})
  open = true
  await waitFor('all are completed while it is off', async () => (await completed(Settlement)) === kinds.length)
  expect(Object.fromEntries(calls)).toEqual({ running: 1, waiting: 1, crashed: 1, interrupted: 1 })
  await worker.stop()
})
