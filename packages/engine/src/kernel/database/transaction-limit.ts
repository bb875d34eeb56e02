import { formatDuration } from '../duration/duration.js'
import { TransientError } from '../failure/failure-errors.js'
import type { LentConnection } from './checkout.js'
import type { UserCodeLimits } from './transaction.js'

/** Shorter leases are for tests: a process that is merely busy must not be taken for frozen. */
const SHORTEST_IDLE = 2_000

export const idleLimit = (idleMs: number): number => Math.max(SHORTEST_IDLE, Math.ceil(idleMs))

interface TransactionLimit {
  /** Rejects when the time is up or the signal has fired. */
  readonly over: Promise<never>
  readonly isOver: boolean
  clear(): void
}

/**
 * The clock of one transaction with user code in it: ends it when its time is up, and until then tells the server now and then
 * that this process lives, so that only a frozen one runs into the session's idle limit (K-23).
 */
export function startTransactionLimit(
  connection: LentConnection,
  { limitMs, idleMs, signal }: UserCodeLimits,
): TransactionLimit {
  let isOver = false
  let fail: (reason: unknown) => void = () => undefined
  const over = new Promise<never>((_, reject) => {
    fail = (reason) => {
      isOver = true
      reject(reason)
    }
  })
  over.catch(() => undefined)
  const onAbort = () => fail(signal?.reason)
  if (signal?.aborted) onAbort()
  signal?.addEventListener('abort', onAbort, { once: true })
  const timer = setTimeout(() => {
    fail(new TransientError(`the transaction took longer than ${formatDuration(limitMs)}`, { code: 'TIMEOUT' }))
  }, limitMs).unref()
  const pulse = setInterval(() => {
    // Its own error is that of the next statement, or of none: a failed transaction stays as it is.
    if (!connection.busy) connection.query({ text: 'select 1' }).catch(() => undefined)
  }, idleLimit(idleMs) / 3).unref()
  return {
    over,
    get isOver() {
      return isOver
    },
    clear() {
      clearTimeout(timer)
      clearInterval(pulse)
      signal?.removeEventListener('abort', onAbort)
    },
  }
}
