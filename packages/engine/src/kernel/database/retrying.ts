import { setTimeout as sleep } from 'node:timers/promises'
import { formatDuration } from '../duration/duration.js'
import { HoldfastError } from '../errors.js'
import { isTransient, outcomeUnknown } from './transient.js'

/** How long a caller waits for a database that does not respond before its call rejects, in milliseconds. */
export const GIVE_UP_AFTER = 30_000

export interface DatabaseRetryOptions {
  /** What is tried, for the error: `send of BookRisk`. */
  readonly name: string
  /** Does the operation recognise its own earlier success? Only then is it repeated after an unknown outcome. */
  readonly idempotent: boolean
  /** Milliseconds since the first attempt; `Infinity` for workers, which never give up. */
  readonly giveUpAfter: number
  readonly backoff: { next(): number }
  readonly signal?: AbortSignal
  /** Called before each wait. */
  readonly onRetry?: (error: unknown, delay: number) => void
}

/**
 * Repeats an operation after a transient error of the database: connection lost, failover, deadlock, too many
 * connections. Every other error is thrown at once, as it is.
 *
 * @example
 * await withDatabaseRetry(() => db.run(sendCommand, [json]), { name: 'send', idempotent: true, giveUpAfter: 30_000, backoff })
 */
export async function withDatabaseRetry<T>(operation: () => Promise<T>, options: DatabaseRetryOptions): Promise<T> {
  const { name, idempotent, giveUpAfter, backoff, signal, onRetry } = options
  const started = performance.now()
  for (;;) {
    try {
      signal?.throwIfAborted()
      return await operation()
    } catch (error) {
      if (!isTransient(error) || (outcomeUnknown(error) && !idempotent)) throw error
      const delay = backoff.next()
      if (performance.now() - started + delay > giveUpAfter) throw gaveUp(name, giveUpAfter, error)
      onRetry?.(error, delay)
      await sleep(delay, undefined, signal ? { signal } : {})
    }
  }
}

function gaveUp(operation: string, giveUpAfter: number, cause: unknown): HoldfastError<'HF_DATABASE_UNAVAILABLE'> {
  const problem = cause instanceof Error ? cause.message : String(cause)
  return new HoldfastError(
    'HF_DATABASE_UNAVAILABLE',
    { operation, waited: formatDuration(giveUpAfter), problem },
    { cause },
  )
}
