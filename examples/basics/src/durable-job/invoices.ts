import { readFile } from 'node:fs/promises'
import {
  type Claimed,
  type Database,
  type Executor,
  migrate,
  newId,
  openDatabase,
  type WorkSource,
} from 'holdfast/internal'

export interface Invoice extends Claimed {
  readonly number: string
}

/** The example keeps to a schema of its own, so that it can run beside a real installation. */
export const SCHEMA = 'holdfast_demo'

export async function openDemo(connectionString: string): Promise<Database> {
  const db = await openDatabase({ connectionString, schema: SCHEMA, poolSize: 4, applicationName: 'holdfast demo' })
  await migrate(db)
  const tables = await readFile(new URL('../../durable-job.sql', import.meta.url), 'utf8')
  await db.transaction((tx) => tx.query(db.sql(tables)))
  return db
}

export async function addInvoices(db: Executor, numbers: readonly string[]): Promise<void> {
  const text = `
    insert into holdfast.invoice (id, number, due_at)
    select id, number, holdfast.now() from unnest($1::uuid[], $2::text[]) as new (id, number)`
  await db.run({ name: 'demo.add', text }, [numbers.map(newId), numbers])
}

/** Due work on one small table: a worker claims what is due, and a claim moves due_at to the end of its lease. */
export function invoiceSource(db: Executor): WorkSource<Invoice> {
  return {
    model: 'invoices',
    types: () => ['PayInvoice'],
    async claim({ worker, limit, leaseMs }) {
      const items = await db.run<Invoice>(claim, [worker, limit, leaseMs])
      return { items, marks: [], nextDueMs: null }
    },
    async extend(leases, leaseMs) {
      const asked = leases.map((lease) => lease.id)
      const rows = await db.run<{ id: string }>(extend, [asked, leases.map((lease) => lease.epoch), leaseMs])
      const extended = rows.map((row) => row.id)
      return { extended, lost: asked.filter((id) => !extended.includes(id)) }
    },
    async release(leases) {
      await db.run(extend, [leases.map((lease) => lease.id), leases.map((lease) => lease.epoch), 0])
    },
    oldestDueSeconds: async () => null,
  }
}

const claim = {
  name: 'demo.claim',
  text: `
    update holdfast.invoice
    set due_at = holdfast.now() + $3 * interval '1 ms', lease_epoch = lease_epoch + 1, leased_by = $1, leased_at = holdfast.now()
    where id = any (array(
      select id from holdfast.invoice
      where due_at <= holdfast.now()
      order by due_at, number
      limit $2
      for update skip locked
    ))
    returning id, 'PayInvoice' as type, lease_epoch as epoch, number`,
}

const extend = {
  name: 'demo.extend',
  text: `
    update holdfast.invoice
    set due_at = holdfast.now() + $3 * interval '1 ms'
    from unnest($1::uuid[], $2::int[]) as held (id, epoch)
    where invoice.id = held.id and lease_epoch = epoch
    returning invoice.id`,
}

/** The call of the bank. The key is the same on every attempt, so that the bank books the payment once. */
export async function callBank(db: Executor, idempotencyKey: string, worker: string): Promise<void> {
  const text = `
    with call as (insert into holdfast.bank_call (idempotency_key, worker) values ($1, $2))
    insert into holdfast.bank_booking (idempotency_key) values ($1) on conflict do nothing`
  await db.run({ name: 'demo.call-bank', text }, [idempotencyKey, worker])
}

/** Records the payment if this worker still has the lease; returns whether it did. */
export async function recordPaid(db: Executor, { id, epoch }: Claimed, worker: string): Promise<boolean> {
  const text = `
    update holdfast.invoice
    set due_at = null, lease_epoch = lease_epoch + 1, leased_by = null, leased_at = null, paid_by = $3
    where id = $1 and lease_epoch = $2
    returning id`
  return (await db.run({ name: 'demo.record', text }, [id, epoch, worker])).length === 1
}

export interface Books {
  readonly invoices: number
  readonly paid: number
  readonly open: number
  readonly bookings: number
  readonly calls: number
}

export async function readBooks(db: Executor): Promise<Books> {
  const text = `
    select
      (select count(*)::int from holdfast.invoice) as invoices,
      (select count(*)::int from holdfast.invoice where paid_by is not null) as paid,
      (select count(*)::int from holdfast.invoice where due_at is not null) as open,
      (select count(*)::int from holdfast.bank_booking) as bookings,
      (select count(*)::int from holdfast.bank_call) as calls`
  const [books] = await db.run<Books>({ name: 'demo.books', text })
  if (!books) throw new Error('no books')
  return books
}
