import type { By } from '../audit/audit.js'
import type { Duration } from '../duration/duration.js'
import type { Why } from './why.js'

export { type Model, models } from '../models.js'

export interface ResultOptions {
  /** How long to wait for the end. Default: 30 s. */
  readonly timeout?: Duration
}

export interface CancelOptions {
  /**
   * `true` undoes what was done, and calls of unknown outcome too, before the work ends. `false` ends it as it is. A command and
   * an item that has not started have nothing to undo. Default: true.
   */
  readonly compensate?: boolean
}

/**
 * One piece of work: a command, a process, a workflow instance or an item of a dispatch. Making a handle costs no query and does not
 * check that the work exists; each call does, and rejects for an unknown id.
 */
export interface Handle<Result, Record, HistoryEntry> {
  /** The id, or the key where the handle was made with a key. */
  readonly id: string
  /** The work as it is now. */
  get(): Promise<Record>
  /** Waits for the end and returns the result; rejects with an error that says why if the work did not complete. */
  result(options?: ResultOptions): Promise<Result>
  /** Everything that happened to it, oldest first. */
  history(): Promise<readonly HistoryEntry[]>
  /** What it waits for, and when it will continue. */
  why(): Promise<Why>
  /** Retries work that needs a person: the failed call is made again, with all its attempts. */
  retry(by: By): Promise<void>
  /** Cancels the work. */
  cancel(by: By, options?: CancelOptions): Promise<void>
  /** Ends work that needs a person as if it had returned this result. */
  complete(by: By, result?: Result): Promise<void>
}

/** The handle that a call returns which may have started the work. */
export interface Started {
  /** Whether this call started it. False: it existed already, with the same id or key. */
  readonly created: boolean
}

/** What `startMany` returns for each, in their order. */
export interface StartedOne extends Started {
  readonly id: string
}
