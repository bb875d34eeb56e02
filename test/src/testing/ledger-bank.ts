import type pg from 'pg'
import type { Bank } from './payment.js'

/** The bank's own table, in the same database so that it survives the worker: one row per key, and a count of all calls. */
export const ledgerTable = `
  create table ledger (key text primary key, what text not null, cents int, calls int not null default 1)`

export function ledgerBank(pool: Pick<pg.Pool, 'query'>): Bank {
  const note = (key: string, what: string, cents: number | null) =>
    pool.query(
      `insert into ledger (key, what, cents) values ($1, $2, $3)
       on conflict (key) do update set calls = ledger.calls + 1`,
      [key, what, cents],
    )
  return {
    async book(_payment, cents, idempotencyKey) {
      await note(idempotencyKey, 'booking', cents)
      return { reference: idempotencyKey }
    },
    async unbook(reference) {
      await pool.query('delete from ledger where key = $1', [reference])
    },
    async submit(payment, idempotencyKey) {
      await note(idempotencyKey, 'submission', null)
      return `receipt of ${payment}`
    },
  }
}
