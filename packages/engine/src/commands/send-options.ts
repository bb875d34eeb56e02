import type { Duration } from '../kernel/duration/duration.js'
import type { Queryable } from '../kernel/model/index.js'
import type { RetryCount } from '../kernel/retry/retry-option.js'

export interface SendOptions {
  /** Your own id: an id that exists already is refused (or ignored, see `ifExists`). Default: a new one. */
  readonly id?: string
  /**
   * Your own name for the command, at most 512 characters: the same key of a type is the same command. An existing command is
   * not changed, whatever its data and status; `created` of the handle says so. Cannot be combined with `id`.
   */
  readonly key?: string
  /** The id by which replies and traces are matched. */
  readonly correlationId?: string
  /** The queue to which the reply goes; it must exist. */
  readonly replyTo?: string
  /** How often a handler is called at most, the first call included. Default: that of the definition. */
  readonly retry?: RetryCount
  /** How long to wait before it is due. Cannot be combined with `startAt`. */
  readonly delay?: Duration
  /** When it is due. Default: at once. */
  readonly startAt?: Date | string
  /** The id of an open batch that it belongs to. */
  readonly batch?: string
  /** What to do if the command exists already: throw `HF_DUPLICATE_COMMAND`, or send nothing. Default: refuse for an `id`, ignore for a `key`. */
  readonly ifExists?: 'refuse' | 'ignore'
  /** Your own transaction: the command is sent when it commits, and not if it rolls back. */
  readonly transaction?: Queryable
}
