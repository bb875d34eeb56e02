import { type By, type Holdfast, HoldfastError } from 'holdfast'
import type pg from 'pg'
import { inTransaction } from '../database/transaction.js'
import { endUnbooked } from '../ledger/ledger.js'
import { findPayment } from './payments.js'
import { processOf } from './processes.js'

/**
 * Cancels a payment and undoes what was done. A payment that has not begun is cancelled here: a process that begins later finds
 * it so.
 */
export async function cancelPayment(
  { hf, pool }: { readonly hf: Holdfast; readonly pool: pg.Pool },
  paymentId: string,
  by: By,
): Promise<void> {
  await inTransaction(pool, (tx) => endUnbooked(tx, paymentId, 'CANCELLED'))
  // Read after that: a process that began meanwhile has stored its id.
  const payment = await findPayment(pool, paymentId)
  if (!payment) throw new Error(`there is no payment ${paymentId}`)
  if (payment.processId === null) return
  try {
    await hf.process(processOf(payment), payment.processId).cancel(by, { compensate: true })
  } catch (error) {
    // It has ended meanwhile: there is nothing to cancel.
    if (!(error instanceof HoldfastError) || error.code !== 'HF_WRONG_STATUS') throw error
  }
}
