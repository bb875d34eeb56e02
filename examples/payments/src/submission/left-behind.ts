import { type Holdfast, HoldfastError } from 'holdfast'
import type pg from 'pg'
import { inTransaction } from '../database/transaction.js'
import type { Payment } from '../domain/payment.js'
import { type EndedUnpaid, endUnbooked } from '../ledger/ledger.js'
import type { Definitions } from '../models/definitions.js'
import { findUnbooked } from './payments.js'
import { processOf } from './processes.js'
import { releaseOf } from './release.js'

interface Parts {
  readonly hf: Holdfast
  readonly pool: pg.Pool
  readonly definitions: Definitions
}

const AT_ONCE = 200

/**
 * Ends payments whose process has ended before it moved their money. A hook does so at once, but a hook is called
 * at most once: a worker that dies between the end of the process and the hook would leave them open for ever. Called by every
 * worker now and then; may be repeated, and run beside itself. Returns how many it has ended.
 */
export async function endLeftBehind(parts: Parts): Promise<number> {
  let ended = 0
  let after: string | undefined
  for (;;) {
    const unbooked = await findUnbooked(parts.pool, { after, limit: AT_ONCE })
    for (const payment of unbooked) {
      const to = await endOf(parts, payment)
      if (to && (await inTransaction(parts.pool, (tx) => endUnbooked(tx, payment.id, to)))) ended += 1
    }
    if (unbooked.length < AT_ONCE) return ended
    after = unbooked.at(-1)?.id
  }
}

/** How the process of an unpaid payment has ended; undefined if it has not. */
async function endOf({ hf, definitions }: Parts, payment: Payment): Promise<EndedUnpaid | undefined> {
  const { id, processId } = payment
  if (processId === null) {
    // Its process has not stored its id yet.
    const release = await releaseOf(hf, definitions.PaymentWindow, id)
    return release?.status === 'FAILED' ? 'CANCELLED' : undefined
  }
  try {
    const { status } = await hf.process(processOf(payment), processId).get()
    if (status === 'CANCELLED') return status
    return status === 'COMPENSATED' || status === 'FAILED' ? 'FAILED' : undefined
  } catch (error) {
    // Started in a transaction that has not committed yet, or cleaned up since.
    if (error instanceof HoldfastError && error.code === 'HF_NOT_FOUND') return undefined
    throw error
  }
}
