import { formatDuration } from '../duration/duration.js'
import { TransientError } from '../failure/failure-errors.js'
import type { LentConnection } from './checkout.js'

/**
 * What bounds a transaction with user code in it. Its statements that would end the transaction or change the session
 * are refused (`query` only; our own go through `run`), and such transactions never take all connections of the pool.
 */
export interface UserCodeLimits {
  /**
   * Milliseconds from the begin to the end of the function. After that the transaction is rolled back, its connection is
   * closed, and the call rejects with a TransientError `TIMEOUT`, whatever the function still does.
   */
  readonly limitMs: number
  /**
   * Milliseconds without a statement after which the server itself ends the session, so that a frozen worker's
   * locks are released: the lease. A live worker sends a statement three times as often, also while its user code uses no SQL.
   */
  readonly idleMs: number
  /** Ends the transaction like the time limit does, with the signal's reason: a lost lease, a stop. */
  readonly signal?: AbortSignal
}

/** The limits of a transaction that must end soon, whatever locks its rows. */
export interface AnswerLimits {
  /** Milliseconds that it waits for a lock before it fails. */
  readonly lockMs: number
  /** When it must have got as far as its commit, by `performance.now()`; after that it is rolled back. */
  readonly commitBy: number
  /** How long the commit may take before its outcome counts as unknown. */
  readonly commitMs: number
  /** What it fails with when it has not got that far. */
  readonly late: () => Error
  /** Called before the commit is sent: from then on it is not certain that nothing was applied. */
  readonly onCommit: () => void
}

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
 * The clock of one transaction with user code in it: ends it at its time limit, and until then sends a statement now and then,
 * so that only a frozen process reaches the session's idle limit.
 */
export function startTransactionLimit(
  connection: LentConnection,
  { limitMs, idleMs, signal }: UserCodeLimits,
): TransactionLimit {
  const { limit, fail } = openLimit()
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
    ...limit,
    get isOver() {
      return limit.isOver
    },
    clear() {
      clearTimeout(timer)
      clearInterval(pulse)
      signal?.removeEventListener('abort', onAbort)
    },
  }
}

/** The clock of one transaction that must end soon. */
export function startAnswerLimit({ commitBy, late }: AnswerLimits): TransactionLimit {
  const { limit, fail } = openLimit()
  const left = commitBy - performance.now()
  if (left <= 0) fail(late())
  const timer = setTimeout(() => fail(late()), Math.max(0, left))
  return {
    ...limit,
    get isOver() {
      return limit.isOver
    },
    clear: () => clearTimeout(timer),
  }
}

function openLimit(): { limit: Omit<TransactionLimit, 'clear'>; fail: (reason: unknown) => void } {
  let isOver = false
  let reject: (reason: unknown) => void = () => undefined
  const over = new Promise<never>((_, refuse) => {
    reject = refuse
  })
  over.catch(() => undefined)
  const limit = {
    over,
    get isOver() {
      return isOver
    },
  }
  return {
    limit,
    fail: (reason) => {
      isOver = true
      reject(reason)
    },
  }
}
