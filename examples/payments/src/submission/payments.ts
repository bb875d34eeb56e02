import type { Queryable } from 'holdfast'
import type pg from 'pg'
import type { Currency } from '../domain/currency.js'
import type { ExecutionModel, Payment, PaymentOrder } from '../domain/payment.js'
import type { PaymentStatus } from '../domain/status.js'

/** A payment to insert. */
export interface NewPayment extends PaymentOrder {
  readonly id: string
  readonly model: ExecutionModel
  readonly status: Extract<PaymentStatus, 'SCHEDULED' | 'ACCEPTED'>
  readonly batchId?: string
  readonly ordinal?: number
  readonly executeAt?: Date
  readonly idempotencyKey?: string
  readonly requestHash?: string
}

/** Inserts payments with the first entry of their history; those whose idempotency key is taken are left out. */
export async function insertPayments(tx: Queryable, payments: readonly NewPayment[]): Promise<Payment[]> {
  const rows = payments.map((payment) => ({
    ...payment,
    debit_amount: payment.debit.amount,
    debit_currency: payment.debit.currency,
  }))
  const answer = await tx.query(insertText, [JSON.stringify(rows)])
  return (answer.rows as PaymentRow[]).map(toPayment)
}

export async function findPayment(executor: Queryable, id: string): Promise<Payment | undefined> {
  const { rows } = await executor.query(`select ${columns} from payments.payment where id = $1`, [id])
  return (rows as PaymentRow[]).map(toPayment)[0]
}

/** Payments whose money was not moved, in the order of their ids, after a given id. */
export async function findUnbooked(
  executor: Queryable,
  { after, limit }: { readonly after: string | undefined; readonly limit: number },
): Promise<Payment[]> {
  const { rows } = await executor.query(
    `select ${columns} from payments.payment
     where status in ('SCHEDULED', 'ACCEPTED') and ($1::uuid is null or id > $1)
     order by id
     limit $2`,
    [after ?? null, limit],
  )
  return (rows as PaymentRow[]).map(toPayment)
}

export async function findByIdempotencyKey(
  executor: Queryable,
  key: string,
): Promise<{ readonly payment: Payment; readonly requestHash: string | null } | undefined> {
  const { rows } = await executor.query(
    `select ${columns}, request_hash from payments.payment where idempotency_key = $1`,
    [key],
  )
  const [row] = rows as (PaymentRow & { request_hash: string | null })[]
  return row && { payment: toPayment(row), requestHash: row.request_hash }
}

/** The currency of each of these accounts that exists. */
export async function accountCurrencies(
  pool: pg.Pool,
  numbers: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const { rows } = await pool.query<{ number: string; currency: string }>(
    'select number, currency from payments.account where number = any ($1)',
    [numbers],
  )
  return new Map(rows.map(({ number, currency }) => [number, currency]))
}

export async function openAccounts(
  pool: pg.Pool,
  accounts: readonly { readonly number: string; readonly holder: string; readonly currency: Currency }[],
): Promise<void> {
  await pool.query(
    `insert into payments.account (number, holder, currency)
     select number, holder, currency from jsonb_to_recordset($1) as (number text, holder text, currency text)
     on conflict (number) do nothing`,
    [JSON.stringify(accounts)],
  )
}

interface PaymentRow {
  readonly id: string
  readonly batch_id: string | null
  readonly model: ExecutionModel
  readonly status: PaymentStatus
  readonly debit_account: string
  readonly debit_amount: string
  readonly debit_currency: Currency
  readonly credit_account: string
  readonly credit_currency: Currency
  readonly credit_amount: string | null
  readonly value_date: string
  readonly cutoff_at: Date
  readonly execute_at: Date | null
  readonly created_at: Date
  readonly ended_at: Date | null
  readonly process_id: string | null
}

const columns = `
  id, batch_id, model, status, debit_account, debit_amount::text, debit_currency, credit_account, credit_currency,
  credit_amount::text, value_date::text, cutoff_at, execute_at, created_at, ended_at, process_id`

function toPayment(row: PaymentRow): Payment {
  return {
    id: row.id,
    batchId: row.batch_id,
    model: row.model,
    status: row.status,
    debitAccount: row.debit_account,
    debit: { amount: row.debit_amount, currency: row.debit_currency },
    creditAccount: row.credit_account,
    creditCurrency: row.credit_currency,
    creditAmount: row.credit_amount,
    valueDate: row.value_date,
    cutoffAt: row.cutoff_at,
    executeAt: row.execute_at,
    createdAt: row.created_at,
    endedAt: row.ended_at,
    processId: row.process_id ?? (row.execute_at ? null : row.id),
  }
}

const insertText = `
  with inserted as (
    insert into payments.payment (
      id, batch_id, ordinal, model, status, debit_account, debit_amount, debit_currency, credit_account, credit_currency,
      value_date, cutoff_at, execute_at, idempotency_key, request_hash
    )
    select
      id, "batchId", coalesce(ordinal, 0), model, status, "debitAccount", debit_amount, debit_currency, "creditAccount",
      "creditCurrency", "valueDate", "cutoffAt", "executeAt", "idempotencyKey", "requestHash"
    from jsonb_to_recordset($1) as (
      id uuid, "batchId" uuid, ordinal int, model text, status text, "debitAccount" text, debit_amount numeric,
      debit_currency text, "creditAccount" text, "creditCurrency" text, "valueDate" date, "cutoffAt" timestamptz,
      "executeAt" timestamptz, "idempotencyKey" text, "requestHash" text
    )
    on conflict (idempotency_key) do nothing
    returning *
  ), noted as (
    insert into payments.status_change (payment_id, to_status) select id, status from inserted
  )
  select ${columns} from inserted`
