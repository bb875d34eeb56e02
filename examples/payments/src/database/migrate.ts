import { readdir, readFile } from 'node:fs/promises'
import type pg from 'pg'
import { inTransaction } from './transaction.js'

const folder = new URL('../../sql/', import.meta.url)
const numbered = /^(\d{4})_.*\.sql$/
/** Any number that nothing else uses as a lock. */
const LOCK = 7_294_618

/** Brings the application's own schema up to date: each file of `sql/` once, in their order, also if several programs start at the same time. */
export async function migratePayments(pool: pg.Pool): Promise<void> {
  await inTransaction(pool, async (tx) => {
    await tx.query('select pg_advisory_xact_lock($1)', [LOCK])
    await tx.query('create schema if not exists payments')
    await tx.query(`create table if not exists payments.migration (
      name text primary key,
      applied_at timestamptz not null default now()
    )`)
    const { rows } = await tx.query<{ name: string }>('select name from payments.migration')
    const applied = new Set(rows.map(({ name }) => name))
    for (const name of (await readdir(folder)).filter((file) => numbered.test(file)).sort()) {
      if (applied.has(name)) continue
      await tx.query(await readFile(new URL(name, folder), 'utf8'))
      await tx.query('insert into payments.migration (name) values ($1)', [name])
    }
  })
}
