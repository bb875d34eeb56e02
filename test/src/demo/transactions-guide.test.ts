import { readFile } from 'node:fs/promises'
import { testDatabase } from '@holdfast/testing/internal'
import { type SQL, sql } from 'drizzle-orm'
import { drizzle as openDrizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable, text } from 'drizzle-orm/pg-core'
import { defineCommand, holdfast, type Queryable } from 'holdfast'
import { CompiledQuery, Kysely, type Transaction as KyselyTransaction, PostgresDialect } from 'kysely'
import pg from 'pg'
import postgres from 'postgres'
import { afterAll, expect, test } from 'vitest'
import { z } from 'zod'

const { connectionString } = await testDatabase()
const hf = await holdfast({ connectionString })
const pool = new pg.Pool({ connectionString, max: 2 })
const postgresJs = postgres(connectionString, { max: 1, onnotice: () => undefined })
afterAll(async () => {
  await Promise.all([pool.end(), postgresJs.end(), hf.close()])
})
await pool.query('create table payment (id text primary key, cents int)')

const BookRisk = defineCommand('payments', 'BookRisk', { data: z.object({ payment: z.string(), cents: z.int() }) })
const cents = 100

/** The payment and the command are both there: the transaction was one. */
async function expectBoth(payment: string): Promise<void> {
  const { rows } = await pool.query('select id, cents from payment where id = $1', [payment])
  expect(rows).toEqual([{ id: payment, cents }])
  const sent = (await hf.commands.list({ domain: 'payments' })).items
  expect(sent.map(({ data }) => data)).toContainEqual({ payment, cents })
}

// The code of docs/guides/transactions.md, letter by letter (the last test compares).
test('K-15 the guide’s transaction of postgres.js', async () => {
  const fromPostgresJs = (tx: postgres.TransactionSql): Queryable => ({
    query: async (text: string, params: string[] = []) => ({ rows: await tx.unsafe(text, params) }),
  })
  const payment = 'PAY-1'
  const sql = postgresJs
  await sql.begin(async (tx) => {
    await tx`insert into payment (id, cents) values (${payment}, ${cents})`
    await hf.send(BookRisk, { payment, cents }, { transaction: fromPostgresJs(tx) })
  })
  await expectBoth(payment)
})

test('K-15 the guide’s transaction of Kysely', async () => {
  const fromKysely = <Tables>(trx: KyselyTransaction<Tables>): Queryable => ({
    query: (text: string, params: unknown[] = []) => trx.executeQuery(CompiledQuery.raw(text, params)),
  })
  const kysely = new Kysely<{ payment: { id: string; cents: number } }>({ dialect: new PostgresDialect({ pool }) })
  const payment = 'PAY-2'
  await kysely.transaction().execute(async (trx) => {
    await trx.insertInto('payment').values({ id: payment, cents }).execute()
    await hf.send(BookRisk, { payment, cents }, { transaction: fromKysely(trx) })
  })
  await expectBoth(payment)
})

test('K-15 the guide’s transaction of Drizzle', async () => {
  const fromDrizzle = (tx: { execute(query: SQL): Promise<{ rows: unknown[] }> }): Queryable => ({
    query: (text: string, params: unknown[] = []) =>
      tx.execute(sql.join(text.split(/\$(\d+)/).map((part, i) => (i % 2 ? sql`${params[+part - 1]}` : sql.raw(part))))),
  })
  const payments = pgTable('payment', { id: text('id').primaryKey(), cents: integer('cents') })
  const drizzle = openDrizzle(pool)
  const payment = 'PAY-3'
  await drizzle.transaction(async (tx) => {
    await tx.insert(payments).values({ id: payment, cents })
    await hf.send(BookRisk, { payment, cents }, { transaction: fromDrizzle(tx) })
  })
  await expectBoth(payment)
})

test('K-15 the guide shows the code that is tested here and in the example', async () => {
  const inRepository = (path: string) => readFile(new URL(`../../../${path}`, import.meta.url), 'utf8')
  const guide = await inRepository('docs/guides/transactions.md')
  const tested = [
    await inRepository('examples/basics/src/own-transaction/main.ts'),
    (await readFile(new URL(import.meta.url), 'utf8')).replaceAll(/^ {2}/gm, ''),
  ]
  const shown = [...guide.matchAll(/```ts\n([\s\S]*?\n)```/g)].map(([, code = '']) => code)
  const snippets = shown.filter((code) => !code.startsWith('interface Queryable'))
  expect(snippets).toHaveLength(8)
  for (const snippet of snippets) {
    expect(
      tested.some((source) => source.includes(snippet)),
      snippet,
    ).toBe(true)
  }
})
