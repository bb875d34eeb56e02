import { countStatements, gate, numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { newId } from '../kernel/ids/id.js'
import { defineProcess } from './define.js'

let bus: TestBus
/** Has no worker: what it counts is what starters do. */
let counted: TestBus
const counter = countStatements()
beforeAll(async () => {
  bus = await openTestBus()
  counted = await openTestBus({ connectionString: bus.connectionString, faults: counter.faults })
})
afterAll(async () => {
  await counted.close()
  await bus.close()
})

const domain = numbered('start')
const anything = z.any()
const quick = () => defineProcess(domain(), 'Quick', { state: anything, execute: async (_ctx, state) => state })

const background = new Set([
  'presence.process-definition',
  'processes.read-settings',
  'processes.find-news',
  'processes.extend',
])

/** Statements since the last time, without those that go out once in a while whatever happens. */
function statements(): Record<string, number> {
  const rest = Object.fromEntries(
    [...counter.counts].filter(([name]) => !background.has(name) && !name.startsWith('presence.')),
  )
  const before = { ...last }
  last = { ...rest }
  return Object.fromEntries(
    Object.entries(rest)
      .map(([name, count]) => [name, count - (before[name] ?? 0)] as const)
      .filter(([, count]) => count > 0),
  )
}
let last: Record<string, number> = {}

test('P-10 runs in the caller: one insert before the first step, and the end shares the write of the last record', async () => {
  const before: Record<string, number> = {}
  const Pay = defineProcess(domain(), 'Pay', {
    state: anything,
    async execute(ctx) {
      await ctx.step('first', () => void Object.assign(before, statements()))
      await ctx.step('second', () => 'b')
      return 'done'
    },
  })
  statements()
  const started = await counted.hf.start(Pay, {})
  expect(before).toEqual({ 'processes.flush-starts': 1 })
  // The first step's record, and the second's with the end.
  expect(statements()).toEqual({ 'processes.write': 2 })
  expect((await started.get()).status).toBe('COMPLETED')
})

test('P-10 the process is leased by its starter from the first moment', async () => {
  const inside = gate()
  const go = gate()
  const Pay = defineProcess(domain(), 'Pay', {
    state: anything,
    execute: async (ctx) =>
      ctx.step('slow', async () => {
        inside.open()
        await go.passed
      }),
  })
  // A worker that would take it if it could.
  await bus.runProcesses(Pay)
  const starting = bus.hf.start(Pay, {}, { key: 'LEASED' })
  await inside.passed
  expect(await bus.hf.start(Pay, {}, { key: 'LEASED' })).toMatchObject({ created: false })
  go.open()
  const started = await starting
  expect(started).toMatchObject({ created: true })
  expect(await started.get()).toMatchObject({ status: 'COMPLETED' })
})

test('P-10 a failure of a process is not thrown into the caller of start', async () => {
  const Fail = defineProcess(domain(), 'Fail', {
    state: anything,
    execute: () => {
      throw new Error('before it is asynchronous')
    },
  })
  const { id, status } = await (await bus.hf.start(Fail, {})).get()
  expect(status).toBe('WAITING_FOR_TSQ')
  expect((await bus.process(id)).error_message).toContain('before it is asynchronous')
})

test('P-10 a given id or key makes a start idempotent, at the same moment too', async () => {
  let executions = 0
  const Once = defineProcess(domain(), 'Once', {
    state: anything,
    execute: async () => {
      executions += 1
    },
  })
  const id = newId()
  const byId = await Promise.all(Array.from({ length: 5 }, () => bus.hf.start(Once, {}, { id })))
  const byKey = await Promise.all(Array.from({ length: 5 }, () => bus.hf.start(Once, {}, { key: 'ONCE' })))
  expect(byId.filter(({ created }) => created)).toHaveLength(1)
  expect(byKey.filter(({ created }) => created)).toHaveLength(1)
  expect(new Set(byId.map((one) => one.id))).toEqual(new Set([id]))
  expect(new Set(byKey.map((one) => one.id)).size).toBe(1)
  expect(executions).toBe(2)
  // The same key of another definition is another process.
  expect(await bus.hf.start(quick(), 1, { key: 'ONCE' })).toMatchObject({ created: true })
})

test('P-10 one id with two keys is one process', async () => {
  const Once = quick()
  const id = newId()
  const started = await Promise.all(['A', 'B', 'C'].map((key) => bus.hf.start(Once, 1, { id, key })))
  expect(started.filter(({ created }) => created)).toHaveLength(1)
  expect(new Set(started.map((one) => one.id))).toEqual(new Set([id]))
})

test('P-10 deferred, and scheduled: left to a worker, not before its time', async () => {
  const Later = quick()
  const deferred = await bus.hf.start(Later, 1, { immediate: false })
  expect((await deferred.get()).status).toBe('PENDING')
  const scheduled = await bus.hf.start(Later, 2, { startAt: new Date(Date.now() + 3_600_000) })
  await bus.runProcesses(Later)
  await bus.rests(deferred.id, 'COMPLETED')
  expect(await bus.process(scheduled.id)).toMatchObject({ status: 'PENDING', leased_by: null })
  await bus.moveClock(3_600_001)
  await bus.rests(scheduled.id, 'COMPLETED')
  await bus.moveClock(0)
})

test('P-10 K-15 inside a caller’s transaction it is deferred, and gone after a rollback', async () => {
  const Later = quick()
  await bus.runProcesses(Later)
  const client = new pg.Client({ connectionString: bus.connectionString })
  await client.connect()
  try {
    await client.query('begin')
    const gone = await bus.hf.start(Later, 1, { transaction: client })
    await client.query('rollback')
    await client.query('begin')
    const kept = await bus.hf.start(Later, 2, { transaction: client })
    expect(kept.created).toBe(true)
    expect(await bus.sql('select 1 from holdfast.process where id = $1', [kept.id])).toEqual([])
    await client.query('commit')
    expect((await bus.rests(kept.id, 'COMPLETED')).result).toBe(2)
    expect(await bus.sql('select 1 from holdfast.process where id = $1', [gone.id])).toEqual([])
  } finally {
    await client.end()
  }
})

test('P-10 startMany creates thousands in set-based statements, all or none', async () => {
  const Many = defineProcess(domain(), 'Many', { state: z.number(), execute: async (_ctx, n) => n })
  statements()
  const started = await counted.hf.startMany(
    Many,
    Array.from({ length: 2_500 }, (_, state) => ({ input: state, key: `M${state}` })),
  )
  expect(statements()).toEqual({ begin: 1, 'processes.start': 3, commit: 1 })
  expect(started.filter(({ created }) => created)).toHaveLength(2_500)
  const again = await bus.hf.startMany(Many, [
    { input: 1, key: 'M1' },
    { input: 9_999, key: 'NEW' },
  ])
  expect(again.map(({ created }) => created)).toEqual([false, true])
  expect(again[0]?.id).toBe(started[1]?.id)
  await expect(
    bus.hf.startMany(Many, [
      { input: 1, key: 'X1' },
      { input: 2, key: 'X2', batch: newId() },
    ]),
  ).rejects.toThrow(expect.objectContaining({ code: 'HF_BATCH_CLOSED' }))
  expect(await bus.sql(`select 1 from holdfast.process_detail where key in ('X1', 'X2')`)).toEqual([])
})

test('P-08 writing step n costs the same as step 1: one statement and one row each, none read', async () => {
  const perStep: Record<string, number>[] = []
  const Long = defineProcess(domain(), 'Long', {
    state: anything,
    async execute(ctx) {
      for (let step = 1; step <= 300; step += 1) {
        await ctx.step('step', () => void perStep.push(statements()))
      }
      await ctx.sleep('replay it', '1h')
      return 'done'
    },
  })
  statements()
  const { id } = await counted.hf.start(Long, {})
  expect(perStep[0]).toEqual({ 'processes.flush-starts': 1 })
  const costs = perStep.slice(1)
  expect(costs.flatMap(Object.keys)).toEqual(Array(299).fill('processes.write'))
  // One that meets the heartbeat on its row is sent again.
  expect(costs.reduce((sum, cost) => sum + (cost['processes.write'] ?? 0), 0)).toBeLessThan(310)
  expect(await bus.history(id)).toHaveLength(301)
  const [row] = await bus.sql<{ bytes: number }>(
    'select octet_length(projection::text) as bytes from holdfast.process_detail where id = $1',
    [id],
  )
  // The state holds none of it.
  expect(row?.bytes).toBeLessThan(10)
  await bus.runProcesses(Long)
  await bus.wakeUp(id)
  await bus.rests(id, 'COMPLETED')
  expect(perStep).toHaveLength(300)
})

test('P-08 a record holds what an operator asks about', async () => {
  let calls = 0
  const Pay = defineProcess(domain(), 'Pay', {
    state: anything,
    classifyError: () => 'transient',
    async execute(ctx) {
      const run = () => {
        calls += 1
        if (calls === 1) throw new Error('busy')
        return { reference: 'r1' }
      }
      await ctx.step('pay', run, { retry: { maxAttempts: 2, delay: 1 }, request: { amount: 5n, to: 'bank' } })
      await ctx.wait('never', () => false, { timeout: '1m' })
    },
  })
  await bus.runProcesses(Pay)
  const { id } = await bus.hf.start(Pay, {})
  await waitFor('it waits', async () => (await bus.process(id)).waiting_for === 'never')
  const rows = await bus.sql(
    `select seq, kind, name, status, attempt, result, next_at is not null as next, detail - 'startedAt' as detail
     from holdfast.process_history where process_id = $1 order by seq`,
    [id],
  )
  expect(rows).toMatchObject([
    {
      seq: 1,
      kind: 'STEP',
      name: 'pay',
      status: 'WAITING_RETRY',
      attempt: 1,
      next: true,
      detail: { maxAttempts: 2, error: { kind: 'TRANSIENT', message: 'busy' } },
    },
    {
      seq: 2,
      kind: 'STEP',
      name: 'pay',
      status: 'COMPLETED',
      attempt: 2,
      result: { reference: 'r1' },
      detail: { maxAttempts: 2, request: { amount: '5', to: 'bank' } },
    },
    { seq: 3, kind: 'WAIT', name: 'never', status: 'STARTED', next: true, detail: { timeoutMs: 60_000 } },
  ])
})
