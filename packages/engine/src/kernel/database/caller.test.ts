import { readFile } from 'node:fs/promises'
import { testDatabase } from '@holdfast/testing/internal'
import { type SQL, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable } from 'drizzle-orm/pg-core'
import { CompiledQuery, Kysely, type Transaction as KyselyTransaction, PostgresDialect } from 'kysely'
import pg from 'pg'
import postgres from 'postgres'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Queryable } from './executor.js'
import { openDatabase } from './open.js'

// The adapters, letter by letter as docs/guides/transactions.md shows them (the last test compares).
// begin adapters
const fromPostgresJs = (tx: postgres.TransactionSql): Queryable => ({
  query: async (text: string, params: string[] = []) => ({ rows: await tx.unsafe(text, params) }),
})
const fromKysely = <Tables>(trx: KyselyTransaction<Tables>): Queryable => ({
  query: (text: string, params: unknown[] = []) => trx.executeQuery(CompiledQuery.raw(text, params)),
})
const fromDrizzle = (tx: { execute(query: SQL): Promise<{ rows: unknown[] }> }): Queryable => ({
  query: (text: string, params: unknown[] = []) =>
    tx.execute(sql.join(text.split(/\$(\d+)/).map((part, i) => (i % 2 ? sql`${params[+part - 1]}` : sql.raw(part))))),
})
// end adapters

const { connectionString } = await testDatabase({ empty: true })
const SCHEMA = 'Odd "schema"'
const db = await openDatabase({ connectionString, schema: SCHEMA })
await db.transaction(async (tx) => {
  await tx.query('create schema "Odd ""schema"""')
  await tx.query(db.sql('create table holdfast.note (data jsonb not null)'))
  await tx.query('create table payment (id int primary key)')
})

const note = {
  name: 'note',
  text: "insert into holdfast.note (data) select $1::text::jsonb returning data ->> 'id' as id, $1::text as again",
}
const data = JSON.stringify({ id: 'n1', tricky: `it's "quoted" \\ $1 ü 😀`, list: [1, null] })

const pool = new pg.Pool({ connectionString, max: 2 })
const kysely = new Kysely<{ payment: { id: number } }>({ dialect: new PostgresDialect({ pool }) })
const client = postgres(connectionString, { max: 1, onnotice: () => undefined })
const payments = pgTable('payment', { id: integer('id').primaryKey() })

/** Each writes a business row and a note of ours in one transaction, and throws inside it when told to. */
const LIBRARIES: Record<string, (send: (tx: Queryable) => Promise<void>) => Promise<unknown>> = {
  pg: async (send) => {
    const own = await pool.connect()
    onTestFinished(() => own.release())
    await own.query('begin')
    try {
      await own.query('insert into payment values (1)')
      await send(own)
      await own.query('commit')
    } catch (error) {
      await own.query('rollback')
      throw error
    }
  },
  'postgres.js': (send) =>
    client.begin(async (tx) => {
      await tx`insert into payment values (${1})`
      await send(fromPostgresJs(tx))
    }),
  Kysely: (send) =>
    kysely.transaction().execute(async (trx) => {
      await trx.insertInto('payment').values({ id: 1 }).execute()
      await send(fromKysely(trx))
    }),
  Drizzle: (send) =>
    drizzle(pool).transaction(async (tx) => {
      await tx.insert(payments).values({ id: 1 })
      await send(fromDrizzle(tx))
    }),
}

async function counts(): Promise<object | undefined> {
  const text = 'select (select count(*)::int from payment) payments, (select count(*)::int from holdfast.note) notes'
  const [row] = await db.run({ name: 'counts', text })
  return row
}

beforeEach(() => db.transaction((tx) => tx.query(db.sql('truncate holdfast.note, payment'))).then(() => undefined))

describe.each(Object.keys(LIBRARIES))('K-15 with %s', (library) => {
  const inTransaction = (send: (tx: Queryable) => Promise<void>) =>
    LIBRARIES[library]?.(send) ?? Promise.reject(new Error())

  test('a business row and ours commit together, the data unharmed', async () => {
    await inTransaction(async (tx) => {
      expect(await db.inside(tx).run(note, [data])).toEqual([{ id: 'n1', again: data }])
      expect(await counts(), 'seen by nobody before the commit').toEqual({ payments: 0, notes: 0 })
    })
    expect(await counts()).toEqual({ payments: 1, notes: 1 })
    const [kept] = await db.run({ name: 'kept', text: 'select data from holdfast.note' })
    expect(kept).toEqual({ data: JSON.parse(data) })
  })

  test('a business row and ours roll back together', async () => {
    const attempt = inTransaction(async (tx) => {
      await db.inside(tx).run(note, [data])
      throw new Error('changed my mind')
    })
    await expect(attempt).rejects.toThrow('changed my mind')
    expect(await counts()).toEqual({ payments: 0, notes: 0 })
  })

  test('an error of ours reaches the caller and ends the transaction', async () => {
    const attempt = inTransaction(async (tx) => void (await db.inside(tx).run(note, ['not json'])))
    const error = await attempt.catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(Error)
    expect(JSON.stringify([error, error instanceof Error ? error.cause : undefined])).toContain('22P02')
    expect(await counts()).toEqual({ payments: 0, notes: 0 })
  })
})

test('K-15 a statement inside a caller’s transaction leaves no prepared statement behind', async () => {
  const own = await pool.connect()
  onTestFinished(() => own.release())
  await own.query('begin')
  await db.inside(own).run(note, [data])
  const { rows } = await own.query("select name from pg_prepared_statements where name like 'hf%'")
  await own.query('rollback')
  expect(rows).toEqual([])
})

test('K-15 a client without `begin` is refused, and nothing is written', async () => {
  const own = await pool.connect()
  onTestFinished(() => own.release())
  await own.query('select 1')
  await expect(db.inside(own).run(note, [data])).rejects.toMatchObject({ code: 'HF_NOT_IN_TRANSACTION' })
  await own.query('begin')
  await own.query('commit')
  await expect(db.inside(own).run(note, [data])).rejects.toMatchObject({ code: 'HF_NOT_IN_TRANSACTION' })
  expect(await counts()).toEqual({ payments: 0, notes: 0 })
})

test('K-15 a `begin` that is still in flight counts', async () => {
  const own = await pool.connect()
  onTestFinished(() => own.release())
  const begun = own.query('begin')
  await db.inside(own).run(note, [data])
  await begun
  await own.query('commit')
  expect(await counts()).toEqual({ payments: 0, notes: 1 })
})

test('K-15 a client of an older `pg`, which does not say whether it is in a transaction, is asked', async () => {
  const own = await pool.connect()
  onTestFinished(() => own.release())
  const older = { processID: 1, query: (text: string, params?: unknown[]) => own.query(text, params) }
  await expect(db.inside(older).run(note, [data])).rejects.toMatchObject({ code: 'HF_NOT_IN_TRANSACTION' })
  await own.query('begin')
  await db.inside(older).run(note, [data])
  await own.query('commit')
  expect(await counts()).toEqual({ payments: 0, notes: 1 })
})

test('K-15 a pool, and what cannot query, is refused with what to do', () => {
  expect(() => db.inside(pool)).toThrow(
    expect.objectContaining({
      code: 'HF_INVALID_OPTION',
      message: expect.stringContaining('is a pool, not a transaction'),
    }),
  )
  // @ts-expect-error a transaction of postgres.js without its adapter
  expect(() => db.inside(client)).toThrow(
    expect.objectContaining({ message: expect.stringContaining('query(text, params)') }),
  )
})

test('K-15 the guide shows the adapters that are tested here', async () => {
  const guide = await readFile(new URL('../../../../../docs/guides/transactions.md', import.meta.url), 'utf8')
  const own = await readFile(new URL(import.meta.url), 'utf8')
  const [, adapters = ''] = /\/\/ begin adapters\n([\s\S]*?)\n\/\/ end adapters/.exec(own) ?? []
  const shown = [...guide.matchAll(/```ts\n(const from[\s\S]*?)\n```/g)].map(([, code]) => code)
  expect(shown.join('\n')).toBe(adapters)
})
