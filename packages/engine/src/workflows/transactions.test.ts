import {
  gate,
  holdAt,
  numbered,
  observeWorkflows,
  openTestBus,
  type TestBus,
  waitFor,
} from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import type { StepContext } from './context.js'
import { defineWorkflow, type WorkflowBranch } from './define.js'

let bus: TestBus
let see: ReturnType<typeof observeWorkflows>
beforeAll(async () => {
  bus = await openTestBus({ abortGrace: '100ms' })
  see = observeWorkflows(bus)
  await bus.sql('create table booking (instance uuid, step text)')
  await bus.hf.run({ poll: '20ms', concurrency: 10 })
})
afterAll(() => bus.close())

const named = numbered('tx')
const soon = { retry: ['1ms'] } as const
const insert = 'insert into booking values ($1, $2)'
const bookings = async (id: string) =>
  (await bus.sql<{ step: string }>('select step from booking where instance = $1 order by 1', [id])).map(
    ({ step }) => step,
  )

test('W-05 the rows of a transaction and the end of its step commit together; what the handler does afterwards changes nothing', async () => {
  const name = named()
  bus.hf.handle(name, async (_, ctx) => {
    const booked = await ctx.transaction(async (tx) => {
      await tx.query(insert, [ctx.instanceId, ctx.stepName])
      return { booked: ctx.attempt }
    })
    expect(booked).toEqual({ booked: 1 })
    await expect(ctx.transaction(async (tx) => tx.query(insert, [ctx.instanceId, 'again']))).rejects.toMatchObject({
      code: 'HF_LEASE_LOST',
    })
    throw new Error('too late')
  })
  const Flow = defineWorkflow('test', name).step('a', name, soon).build()
  const { id } = await bus.hf.start(Flow)
  expect((await see.until(id, 'COMPLETED')).output).toEqual({ booked: 1 })
  expect(await bookings(id)).toEqual(['a'])
  expect(await see.lines(id)).toEqual(['workflow_started', 'step_started a', 'step_completed a', 'workflow_completed'])
})

test('W-05 a transaction that throws is rolled back and retried; one whose result cannot be stored is rolled back and fails for good', async () => {
  const name = named()
  bus.hf.handle(name, (_, ctx) =>
    ctx.transaction(async (tx) => {
      await tx.query(insert, [ctx.instanceId, `${ctx.stepName} ${ctx.attempt}`])
      if (ctx.attempt === 1) throw new Error('not yet')
      return ctx.stepName === 'a' ? 'fine' : () => 'a function'
    }),
  )
  const Flow = defineWorkflow('test', name).step('a', name, soon).step('b', name, soon).build()
  const { id } = await bus.hf.start(Flow)
  expect((await see.until(id, 'FAILED')).error).toMatchObject({ step: 'b', kind: 'PERMANENT' })
  expect(await bookings(id)).toEqual(['a 2'])
})

test('W-05 a worker that dies between the rows and the commit: neither is written, and the next worker does both', async () => {
  const name = named()
  const hold = holdAt('before commit')
  const victim = await openTestBus({ connectionString: bus.connectionString, faults: hold.faults })
  const book = (_: unknown, ctx: StepContext) =>
    ctx.transaction(async (tx) => void (await tx.query(insert, [ctx.instanceId, `${ctx.attempt}`])))
  victim.hf.handle(name, book)
  const { id } = await bus.hf.start(defineWorkflow('test', name).step('a', name).build())
  const worker = await victim.hf.run({ poll: '20ms' })
  await hold.reached
  worker.stopNow()
  await bus.sql(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and state = 'idle in transaction'`,
  )
  hold.release()
  await see.endLease(id, 'a')
  bus.hf.handle(name, book)
  await see.until(id, 'COMPLETED')
  // Stopped, it has no attempt to its name; the rows are those of one transaction.
  expect(await bookings(id)).toHaveLength(1)
  await victim.close()
})

test('W-05 a handler whose step has a new owner cannot commit any more', async () => {
  const name = named()
  const frozen = gate()
  const errors: unknown[] = []
  let calls = 0
  bus.hf.handle(name, async (_, ctx) => {
    calls += 1
    const call = calls
    if (call === 1) await frozen.passed
    try {
      await ctx.transaction(async (tx) => void (await tx.query(insert, [ctx.instanceId, `${call}`])))
    } catch (error) {
      errors.push(error)
      throw error
    }
  })
  const { id } = await bus.hf.start(defineWorkflow('test', name).step('a', name).build())
  await see.untilStep(id, 'a', 'RUNNING')
  await see.endLease(id, 'a')
  await see.until(id, 'COMPLETED')
  frozen.open()
  await waitFor('the first one is told', () => errors.length === 1)
  expect(errors[0]).toMatchObject({ code: 'HF_LEASE_LOST' })
  expect(await bookings(id)).toEqual(['2'])
})

test('W-05 a handler that goes on after its time is up cannot commit any more', async () => {
  const name = named()
  const late = gate()
  const errors: unknown[] = []
  bus.hf.handle(name, async (_, ctx) => {
    if (ctx.attempt > 1) return 'in time'
    await late.passed
    return ctx
      .transaction(async (tx) => void (await tx.query(insert, [ctx.instanceId, 'late'])))
      .catch((error) => {
        errors.push(error)
      })
  })
  const Flow = defineWorkflow('test', name)
    .step('a', name, { ...soon, timeout: '50ms' })
    .build()
  expect(await (await bus.hf.start(Flow)).result()).toBe('in time')
  late.open()
  await waitFor('it is refused', () => errors.length === 1)
  expect(errors[0]).toMatchObject({ code: 'HF_LEASE_LOST' })
})

test('W-05 W-07 transactions of all branches at once: every one commits once, and the join fires once', async () => {
  const name = named()
  bus.hf.handle(name, (_, ctx) =>
    ctx.transaction(async (tx) => {
      await tx.query(insert, [ctx.instanceId, ctx.stepName])
      return ctx.stepName
    }),
  )
  const branch = (step: string) => (b: WorkflowBranch<'f'>) => b.step(step, name, soon)
  const Flow = defineWorkflow('test', name)
    .fork('f', ...['a', 'b', 'c', 'd', 'e', 'g'].map(branch))
    .join('j', 'all')
    .build()
  const ids = await Promise.all(Array.from({ length: 5 }, async () => (await bus.hf.start(Flow)).id))
  for (const id of ids) {
    expect((await see.until(id, 'COMPLETED')).output).toEqual({ a: 'a', b: 'b', c: 'c', d: 'd', e: 'e', g: 'g' })
    expect(await bookings(id)).toEqual(['a', 'b', 'c', 'd', 'e', 'g'])
    expect((await see.lines(id)).filter((line) => line === 'join_completed j')).toHaveLength(1)
  }
})

test('W-05 W-07 a transaction that wins an `any` join while a claim has locked a losing step waits briefly for it', async () => {
  const name = named()
  const here = gate()
  const further = gate()
  bus.hf.handle(name, (_, ctx) =>
    ctx.transaction(async (tx) => {
      await tx.query(insert, [ctx.instanceId, ctx.stepName])
      here.open()
      await further.passed
      return ctx.attempt
    }),
  )
  const Flow = defineWorkflow('test', name)
    .fork(
      'f',
      (b) => b.step('a', name, { retry: { maxAttempts: 1 } }),
      (b) => b.step('b', `${name} nobody`),
    )
    .join('j', 'any')
    .build()
  const { id } = await bus.hf.start(Flow)
  await here.passed
  const client = new pg.Client({ connectionString: bus.connectionString })
  await client.connect()
  await client.query('begin')
  await client.query(`select from holdfast.workflow_step where workflow_id = $1 and name = 'b' for no key update`, [id])
  further.open()
  await waitFor('it meets the row', async () => {
    const busy = `select from pg_stat_activity where state = 'idle in transaction' and query like '%write_workflow_changes%'`
    return (await bus.sql(busy)).length > 0
  })
  await client.query('rollback')
  await client.end()
  expect((await see.until(id, 'COMPLETED')).output).toEqual({ a: 1 })
  expect(await see.statuses(id)).toMatchObject({ a: 'COMPLETED', b: 'SKIPPED', j: 'COMPLETED' })
})

test('W-11 a cancel reaches a handler inside its transaction; what it commits anyway is recorded and undone', async () => {
  const name = named()
  const here = gate()
  const undone: string[] = []
  bus.hf.handle(name, (_, ctx) =>
    ctx.transaction(async (tx) => {
      await tx.query(insert, [ctx.instanceId, ctx.stepName])
      here.open()
      await new Promise<void>((resolve) => ctx.signal.addEventListener('abort', () => resolve()))
      return 'all the same'
    }),
  )
  bus.hf.handle(`undo ${name}`, (_, { stepName, output }) => void undone.push(`${stepName} ${String(output)}`))
  const { id } = await bus.hf.start(
    defineWorkflow('test', name).step('a', name).onFailure('ua', `undo ${name}`).build(),
  )
  await here.passed
  await bus.hf.workflow(id).cancel({ actor: 'ann', reason: 'because' })
  await see.until(id, 'CANCELLED')
  expect([await bookings(id), undone]).toEqual([['a'], ['a all the same']])
})

test('W-05 a transaction whose step was decided on while it ran is rolled back', async () => {
  const name = named()
  const here = gate()
  const further = gate()
  const errors: unknown[] = []
  bus.hf.handle(name, (_, ctx) =>
    ctx
      .transaction(async (tx) => {
        await tx.query(insert, [ctx.instanceId, ctx.stepName])
        here.open()
        await further.passed
      })
      .catch((error) => {
        errors.push(error)
        throw error
      }),
  )
  const { id } = await bus.hf.start(defineWorkflow('test', name).step('a', name).build())
  await here.passed
  // As another program would that has heard nothing of it for too long.
  await bus.sql(
    `update holdfast.workflow_step set in_flight = false, status = 'PENDING', leased_by = null, leased_at = null,
       due_at = holdfast.now() + interval '1 h' where workflow_id = $1`,
    [id],
  )
  further.open()
  await waitFor('it is told', () => errors.length === 1)
  expect(errors[0]).toMatchObject({ code: 'HF_LEASE_LOST' })
  expect(await bookings(id)).toEqual([])
})

test.each([
  ['30 s unless the step says otherwise', {}, 30_000],
  ['the timeout of the step', { timeout: '77s' }, 77_000],
] as const)('K-23 the time limit of a transaction is %s', async (_, options, expected) => {
  const name = named()
  const limits = vi.spyOn(globalThis, 'setTimeout')
  const begun: number[] = []
  bus.hf.handle(name, async (_input, ctx) => {
    limits.mockClear()
    await ctx.transaction(async () => {
      begun.push(...limits.mock.calls.map(([, milliseconds]) => milliseconds ?? 0))
    })
  })
  const { id } = await bus.hf.start(defineWorkflow('test', name).step('a', name, options).build())
  await see.until(id, 'COMPLETED')
  limits.mockRestore()
  // Among the timers that others set in the same moment.
  expect(begun).toContain(expected)
})
