import { createHash, randomUUID } from 'node:crypto'
import type { Holdfast, Queryable } from 'holdfast'
import type pg from 'pg'
import { inTransaction } from '../database/transaction.js'
import { checkOrder, parseInput, SubmissionInput } from '../domain/order.js'
import type { Payment } from '../domain/payment.js'
import { InvalidInput } from '../domain/problem.js'
import type { Definitions } from '../models/definitions.js'
import { initialState } from '../models/state.js'
import { accountCurrencies, findByIdempotencyKey, insertPayments, type NewPayment } from './payments.js'
import { schedulePayment } from './schedule.js'

export interface SubmitParts {
  readonly hf: Holdfast
  readonly pool: pg.Pool
  readonly definitions: Definitions
}

export interface Submitted {
  readonly payment: Payment
  /** False: a payment with this idempotency key exists already, and this is it. */
  readonly created: boolean
}

/**
 * Accepts one payment: the row and the process that will pay it are one transaction, and a worker executes it.
 * The same idempotency key again returns the first payment.
 */
export async function submitPayment(parts: SubmitParts, body: unknown, idempotencyKey?: string): Promise<Submitted> {
  const { pool } = parts
  const input = parseInput(SubmissionInput, body)
  const requestHash = createHash('sha256').update(JSON.stringify(input)).digest('hex')
  const accounts = await accountCurrencies(pool, [input.debitAccount, input.creditAccount])
  const { model, executeAt, ...order } = input
  const before = idempotencyKey === undefined ? undefined : await findByIdempotencyKey(pool, idempotencyKey)
  if (before) return repeated(before, requestHash)
  const checked = checkOrder(order, { now: new Date(), accounts })
  const payment = {
    ...checked,
    id: randomUUID(),
    model,
    ...(idempotencyKey === undefined ? {} : { idempotencyKey, requestHash }),
  }
  const accepted = await inTransaction(pool, (tx) =>
    executeAt === undefined
      ? startNow(parts, tx, { ...payment, status: 'ACCEPTED' })
      : schedulePayment(parts, tx, payment, new Date(executeAt)),
  )
  if (accepted) return { payment: accepted, created: true }
  // Another request had the same key at the same moment.
  const first = await findByIdempotencyKey(pool, idempotencyKey ?? '')
  if (!first) throw new Error(`the payment of the idempotency key ${idempotencyKey} is gone`)
  return repeated(first, requestHash)
}

function repeated(
  { payment, requestHash: before }: { readonly payment: Payment; readonly requestHash: string | null },
  requestHash: string,
): Submitted {
  if (before === requestHash) return { payment, created: false }
  throw new InvalidInput([{ field: 'Idempotency-Key', detail: 'was used before, for another payment' }])
}

async function startNow(parts: SubmitParts, tx: Queryable, payment: NewPayment): Promise<Payment | undefined> {
  const [accepted] = await insertPayments(tx, [payment])
  if (accepted) await startPayment(parts, tx, accepted)
  return accepted
}

/** The process has the payment's id. */
async function startPayment({ hf, definitions }: SubmitParts, tx: Queryable, payment: Payment): Promise<void> {
  const options = { id: payment.id, transaction: tx }
  const state = initialState(payment)
  if (payment.model === 'STEP_BASED') await hf.start(definitions.StepPayment, state, options)
  else await hf.start(definitions.Payment, state, options)
}
