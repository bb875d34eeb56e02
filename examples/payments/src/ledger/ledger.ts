import { BusinessError, PermanentError, type Queryable } from 'holdfast'
import { hasEnded, type PaymentStatus, sourcesOf } from '../domain/status.js'

/** The money that moved, if any. */
interface Moved {
  readonly from: PaymentStatus
}

export type EndedUnpaid = Extract<PaymentStatus, 'FAILED' | 'CANCELLED'>

/**
 * Changes a payment's status if its present one allows it, records the change, and returns the status before; undefined
 * if it does not.
 */
async function move(
  tx: Queryable,
  paymentId: string,
  to: PaymentStatus,
  {
    sources = sourcesOf(to),
    processId,
  }: { readonly sources?: readonly PaymentStatus[]; readonly processId?: string } = {},
): Promise<Moved | undefined> {
  const { rows } = await tx.query(moveText, [paymentId, to, sources, hasEnded(to), processId ?? null])
  const [row] = rows as Moved[]
  return row
}

async function statusOf(tx: Queryable, paymentId: string): Promise<PaymentStatus> {
  const { rows } = await tx.query('select status from payments.payment where id = $1', [paymentId])
  const [row] = rows as { status: PaymentStatus }[]
  if (!row) throw new PermanentError(`there is no payment ${paymentId}`, { code: 'UNKNOWN_PAYMENT' })
  return row.status
}

/** The payment is due, and this process executes it. */
export async function accept(tx: Queryable, paymentId: string, processId: string): Promise<void> {
  if (!(await move(tx, paymentId, 'ACCEPTED', { processId }))) await refuse(tx, paymentId, 'ACCEPTED')
}

/** Takes the money from the debit account; from here on it is in flight. */
export async function bookPayment(tx: Queryable, paymentId: string): Promise<void> {
  if (!(await move(tx, paymentId, 'PROCESSING'))) await refuse(tx, paymentId, 'PROCESSING')
  await tx.query(bookText, [paymentId])
}

/** Pays the money out, in the currency of the credit account. */
export async function settlePayment(tx: Queryable, paymentId: string, creditAmount: string): Promise<void> {
  if (!(await move(tx, paymentId, 'COMPLETE'))) await refuse(tx, paymentId, 'COMPLETE')
  await tx.query('update payments.payment set credit_amount = $2 where id = $1', [paymentId, creditAmount])
  await tx.query(settleText, [paymentId])
}

/**
 * Ends a payment that is not paid: money in flight is returned. May be repeated; false if the payment had
 * ended before.
 */
export async function unwindPayment(tx: Queryable, paymentId: string, to: EndedUnpaid): Promise<boolean> {
  const moved = await move(tx, paymentId, to)
  if (moved?.from === 'PROCESSING') await tx.query(unwindText, [paymentId])
  if (!moved && (await statusOf(tx, paymentId)) === 'COMPLETE') {
    throw new PermanentError(`payment ${paymentId} is complete and cannot be unwound`, { code: 'ALREADY_COMPLETE' })
  }
  return moved !== undefined
}

/** Ends a payment whose money was not moved; false if it was, or if the payment had ended before. */
export async function endUnbooked(tx: Queryable, paymentId: string, to: EndedUnpaid): Promise<boolean> {
  const unbooked = sourcesOf(to).filter((status) => status !== 'PROCESSING')
  return (await move(tx, paymentId, to, { sources: unbooked })) !== undefined
}

/** A payment that was cancelled before it began is a known end. Anything else needs a person. */
async function refuse(tx: Queryable, paymentId: string, to: PaymentStatus): Promise<never> {
  const status = await statusOf(tx, paymentId)
  if (hasEnded(status)) throw new BusinessError(`payment ${paymentId} is ${status}`, { code: `ALREADY_${status}` })
  throw new PermanentError(`payment ${paymentId} is ${status} and cannot become ${to}`, { code: 'ILLEGAL_STATUS' })
}

const moveText = `
  with before as (
    select id, status from payments.payment where id = $1 and status = any ($3) for update
  ), moved as (
    update payments.payment
    set status = $2, ended_at = case when $4 then now() end, process_id = coalesce($5, process_id)
    from before
    where payment.id = before.id
  ), noted as (
    insert into payments.status_change (payment_id, from_status, to_status) select id, status, $2 from before
  )
  select status as "from" from before`

const bookText = `
  insert into payments.ledger_entry (payment_id, kind, account, currency, amount)
  select id, 'BOOK', line.account, debit_currency, line.amount
  from payments.payment,
  lateral (values (debit_account, -debit_amount), ('in-flight', debit_amount)) as line (account, amount)
  where id = $1`

const unwindText = `
  insert into payments.ledger_entry (payment_id, kind, account, currency, amount)
  select id, 'UNWIND', line.account, debit_currency, line.amount
  from payments.payment,
  lateral (values ('in-flight', -debit_amount), (debit_account, debit_amount)) as line (account, amount)
  where id = $1`

/** Within one currency the money goes straight to the credit account; else through our position in both currencies. */
const settleText = `
  insert into payments.ledger_entry (payment_id, kind, account, currency, amount)
  select id, 'SETTLE', line.account, line.currency, line.amount
  from payments.payment,
  lateral (
    values
      ('in-flight', debit_currency, -debit_amount, true),
      ('fx-position', debit_currency, debit_amount, debit_currency <> credit_currency),
      ('fx-position', credit_currency, -credit_amount, debit_currency <> credit_currency),
      (credit_account, credit_currency, credit_amount, true)
  ) as line (account, currency, amount, counts)
  where id = $1 and line.counts`
