import type { Queryable } from '../kernel/database/executor.js'
import type { Duration } from '../kernel/duration/duration.js'
import type { RetryCount } from '../kernel/retry/retry-option.js'

export interface SendOptions {
  /** Your own id: the same command sent twice is refused (or ignored, see `ifExists`). A new one unless given. */
  readonly commandId?: string
  /** What replies and traces are matched by. */
  readonly correlationId?: string
  /** The queue to which the reply goes; it must exist. */
  readonly replyTo?: string
  /** How often a handler is called at most, the first call included; the definition's unless given. */
  readonly retry?: RetryCount
  readonly delay?: Duration
  readonly runAt?: Date | string
  /** An open batch that it belongs to. */
  readonly batchId?: string
  readonly ifExists?: 'refuse' | 'ignore'
  /** Your own transaction: the command is sent when it commits, and not if it rolls back. */
  readonly transaction?: Queryable
}
