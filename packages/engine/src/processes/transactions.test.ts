import { gate, numbered, openTestBus, type TestBus, waitFor } from '@holdfast/testing/internal'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { BusinessError, PermanentError } from '../kernel/failure/failure-errors.js'
import { defineProcess } from './define.js'
import { StepFailed } from './step-failed.js'

let bus: TestBus
beforeAll(async () => {
  bus = await openTestBus()
  await bus.sql('create table booking (process text, n int)')
})
afterAll(() => bus.close())

const domain = numbered('transactions')
const anything = z.any()

/** Tells that it has come here, and waits to be let go. */
async function passing(here: { open(): void }, further: { passed: Promise<void> }): Promise<void> {
  here.open()
  await further.passed
}
const bookings = async (id: string) => (await bus.sql('select n from booking where process = $1', [id])).length
const insert = 'insert into booking values ($1, $2)'

test('P-05 SQL and record commit together, once, however often it is replayed', async () => {
  let calls = 0
  const Book = defineProcess(domain(), 'Book', {
    state: anything,
    async execute(ctx) {
      const rows = await ctx.transaction('book', async (tx) => {
        calls += 1
        await tx.query(insert, [ctx.id, 1])
        return (await tx.query('select 7 as answer')).rows
      })
      await ctx.sleep('replay it', '1h')
      return rows
    },
  })
  const { id } = await bus.hf.start(Book, {})
  await bus.runProcesses(Book)
  await bus.wakeUp(id)
  expect((await bus.rests(id, 'COMPLETED')).result).toEqual([{ answer: 7 }])
  expect([calls, await bookings(id)]).toEqual([1, 1])
  expect((await bus.history(id))[0]).toBe('TRANSACTION book COMPLETED')
})

test('P-05 a state with a date goes into SQL as a date', async () => {
  const Due = defineProcess(domain(), 'Due', {
    state: z.object({ due: z.date() }),
    execute: async (ctx, state) =>
      ctx.transaction('t', async (tx) => (await tx.query('select $1::timestamptz as due', [state.due])).rows),
  })
  const due = new Date('2026-01-02T03:04:05.678Z')
  const { id } = await bus.hf.start(Due, { due })
  expect((await bus.process(id)).result).toEqual([{ due: due.toISOString() }])
})

test.each([
  ['permanent', PermanentError, 'WAITING_FOR_TSQ'],
  ['business', BusinessError, 'COMPENSATED'],
] as const)('P-05 a transaction that throws a %s failure is rolled back', async (_, Kind, status) => {
  const Book = defineProcess(domain(), 'Book', {
    state: anything,
    execute: async (ctx) =>
      ctx.transaction('book', async (tx) => {
        await tx.query(insert, [ctx.id, 1])
        throw new Kind('no')
      }),
  })
  const started = await bus.hf.start(Book, {})
  expect([(await started.get()).status, await bookings(started.id)]).toEqual([status, 0])
})

test('P-05 a mistake in SQL is permanent, may be thrown, and leaves nothing', async () => {
  const Book = defineProcess(domain(), 'Book', {
    state: anything,
    async execute(ctx) {
      try {
        await ctx.transaction(
          'book',
          async (tx) => {
            await tx.query(insert, [ctx.id, 1])
            await tx.query('select nonsense')
          },
          { onFailure: 'throw' },
        )
        return 'booked'
      } catch (error) {
        return error instanceof StepFailed ? error.message : 'another error'
      }
    },
  })
  const { id } = await bus.hf.start(Book, {})
  expect((await bus.process(id)).result).toMatch(/^book: column "nonsense" does not exist/)
  expect(await bookings(id)).toBe(0)
})

test('P-05 a transaction in which the code swallows an error of a statement does not count as done', async () => {
  const Book = defineProcess(domain(), 'Book', {
    state: anything,
    execute: async (ctx) =>
      ctx.transaction('book', async (tx) => {
        await tx.query(insert, [ctx.id, 1])
        await tx.query('select nonsense').catch(() => undefined)
        return 'swallowed'
      }),
  })
  const { id, status } = await (await bus.hf.start(Book, {})).get()
  expect([status, await bookings(id)]).toEqual(['WAITING_FOR_TSQ', 0])
})

test.each([
  ['40001', 'serialization failure'],
  ['40P01', 'deadlock'],
])('P-05 K-11 a %s (%s) is tried again and uses up no attempt', async (errcode) => {
  let calls = 0
  const Book = defineProcess(domain(), 'Book', {
    state: anything,
    execute: async (ctx) =>
      ctx.transaction('book', async (tx) => {
        calls += 1
        await tx.query(insert, [ctx.id, calls])
        if (calls === 1) await tx.query(`do $$ begin raise exception 'gave way' using errcode = '${errcode}'; end $$`)
        return calls
      }),
  })
  const { id, status } = await (await bus.hf.start(Book, {})).get()
  expect(status).toBe('WAITING_FOR_RETRY')
  await bus.runProcesses(Book)
  expect((await bus.rests(id, 'COMPLETED')).result).toBe(2)
  expect(await bookings(id)).toBe(1)
  const [failed] = await bus.sql<{ attempt: number }>(
    `select attempt from holdfast.process_history where process_id = $1 and status = 'WAITING_RETRY'`,
    [id],
  )
  expect(failed?.attempt).toBe(0)
})

test("P-05 a network error of the code's own is its own failure, not the database's", async () => {
  let calls = 0
  const Book = defineProcess(domain(), 'Book', {
    state: anything,
    execute: async (ctx) =>
      ctx.transaction('book', async () => {
        calls += 1
        throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
      }),
  })
  const { status } = await (await bus.hf.start(Book, {})).get()
  expect([status, calls]).toEqual(['WAITING_FOR_TSQ', 1])
})

test('P-05 while it runs no worker claims the process: claims and heartbeats skip it', async () => {
  const inside = gate()
  const go = gate()
  let calls = 0
  const Book = defineProcess(domain(), 'Book', {
    state: anything,
    execute: async (ctx) => {
      await ctx.step('before', () => 1)
      await ctx.transaction('book', async (tx) => {
        calls += 1
        await tx.query(insert, [ctx.id, calls])
        inside.open()
        await go.passed
      })
    },
  })
  // The lease ends again and again while the transaction runs.
  await bus.runProcesses(Book, { lease: '300ms' })
  await bus.runProcesses(Book, { lease: '300ms' })
  const { id } = await bus.hf.start(Book, {}, { immediate: false })
  await inside.passed
  await waitFor('its lease is over', async () => {
    const [row] = await bus.sql<{ over: boolean }>(
      'select due_at < holdfast.now() as over from holdfast.process where id = $1',
      [id],
    )
    return row?.over
  })
  go.open()
  await bus.rests(id, 'COMPLETED')
  expect([calls, await bookings(id)]).toEqual([1, 1])
})

test('P-05 a transaction whose lease was lost before it begins runs no SQL', async () => {
  const reached = gate()
  const go = gate()
  let inTransaction = 0
  const Book = defineProcess(domain(), 'Book', {
    state: anything,
    execute: async (ctx) => {
      await ctx.step('slow', () => passing(reached, go))
      await ctx.transaction('book', async (tx) => {
        inTransaction += 1
        await tx.query(insert, [ctx.id, 1])
      })
    },
  })
  const starting = bus.hf.start(Book, {})
  await reached.passed
  const [row] = await bus.sql<{ id: string }>(
    'update holdfast.process set lease_epoch = lease_epoch + 1 where type = $1 returning id',
    [Book.name],
  )
  go.open()
  expect((await (await starting).get()).status).toBe('EXECUTING')
  expect([inTransaction, await bookings(row?.id ?? '')]).toEqual([0, 0])
  expect(await bus.history(row?.id ?? '')).toEqual([])
})

test('P-05 a response to a process in a transaction delays no other response', async () => {
  const inside = gate()
  const go = gate()
  const define = () =>
    defineProcess(domain(), 'Wait', {
      state: z.object({ told: z.number().default(0) }),
      responses: {
        told: {
          data: z.number(),
          apply: (state, n) => {
            state.told = n
          },
        },
      },
      execute: async (ctx, state) => {
        await ctx.transaction('t', () => passing(inside, go))
        await ctx.wait('told', () => state.told > 0)
        return state.told
      },
    })
  const Held = define()
  const Free = defineProcess(domain(), 'Free', {
    state: z.any(),
    responses: { told: { data: z.number() } },
    execute: async (ctx) => ctx.event('told', 'told'),
  })
  const free = await bus.hf.start(Free, {})
  const starting = bus.hf.start(Held, {}, { key: 'held' })
  await inside.passed
  const responded = bus.hf.process(Held, 'held').respond('told', 5)
  await bus.hf.process(Free, free.id).respond('told', 1)
  go.open()
  await responded
  await bus.runProcesses(Held)
  expect((await bus.rests((await starting).id, 'COMPLETED')).result).toBe(5)
})

test('P-05 a step beside a transaction is recorded with it or after it, and neither is lost', async () => {
  const inside = gate()
  const both = gate()
  const Pair = defineProcess(domain(), 'Pair', {
    state: anything,
    execute: async (ctx) =>
      Promise.all([
        ctx.transaction('tx', async (tx) => {
          inside.open()
          await both.passed
          await tx.query(insert, [ctx.id, 1])
          return 'tx'
        }),
        ctx
          .step('step', () => inside.passed.then(() => 'step'))
          .then((value) => {
            both.open()
            return value
          }),
      ]),
  })
  const { id, status } = await (await bus.hf.start(Pair, {})).get()
  expect(status).toBe('COMPLETED')
  expect((await bus.process(id)).result).toEqual(['tx', 'step'])
  const rows = await bus.sql<{ seq: number; name: string }>(
    'select seq, name from holdfast.process_history where process_id = $1 order by seq',
    [id],
  )
  expect(rows).toEqual([
    { seq: 1, name: 'step' },
    { seq: 2, name: 'tx' },
  ])
})

test('P-05 a connection that breaks in the middle leaves nothing, and it is tried again', async () => {
  let calls = 0
  const Book = defineProcess(domain(), 'Book', {
    state: anything,
    execute: async (ctx) =>
      ctx.transaction('book', async (tx) => {
        calls += 1
        await tx.query(insert, [ctx.id, calls])
        if (calls === 1) {
          const { rows } = await tx.query('select pg_backend_pid() as pid')
          const killer = new pg.Client({ connectionString: bus.connectionString })
          await killer.connect()
          await killer.query('select pg_terminate_backend($1)', [(rows[0] as { pid: number }).pid])
          await killer.end()
          await tx.query('select 1')
        }
        return calls
      }),
  })
  await bus.runProcesses(Book)
  const { id } = await bus.hf.start(Book, {})
  expect((await bus.rests(id, 'COMPLETED')).result).toBe(2)
  expect(await bookings(id)).toBe(1)
})
