import type { Queryable } from '../kernel/database/executor.js'
import type { Duration } from '../kernel/duration/duration.js'
import type { RetryCount } from '../kernel/retry/retry-option.js'

export interface SendOptions {
  /** Your own id: the same command sent twice is refused (or ignored, see `ifExists`). A new one unless given. */
  readonly id?: string
  /**
   * Your own name for the command, at most 512 characters: the same key of a type is the same command. One that is there already is
   * left as it is, whatever its data and its status; `created` of the handle says so. Goes without `id`.
   */
  readonly key?: string
  /** What replies and traces are matched by. */
  readonly correlationId?: string
  /** The queue to which the reply goes; it must exist. */
  readonly replyTo?: string
  /** How often a handler is called at most, the first call included; the definition's unless given. */
  readonly retry?: RetryCount
  /** How long to wait before it is due. Goes without `startAt`. */
  readonly delay?: Duration
  /** When it is due. Default: at once. */
  readonly startAt?: Date | string
  /** The id of an open batch that it belongs to. */
  readonly batch?: string
  /** What to do with a command that is there already: throw `HF_DUPLICATE_COMMAND`, or send nothing. Default: refuse for an `id`, ignore for a `key`. */
  readonly ifExists?: 'refuse' | 'ignore'
  /** Your own transaction: the command is sent when it commits, and not if it rolls back. */
  readonly transaction?: Queryable
}
