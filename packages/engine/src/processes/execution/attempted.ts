import type { Encoded } from '../../kernel/codec/codec.js'
import type { Failure } from '../../kernel/failure/classify.js'
import type { RecordDetail } from '../history.js'
import type { JournalEvent } from '../queries/write-processes.js'
import type { CallState } from './calls.js'

/** How an attempt ended, before it is recorded. */
export type Attempted =
  | { readonly done: EncodedResult; readonly startedAt: number }
  | FailedAttempt
  /** It never began, and is tried again later: no slot, database trouble. No attempt is used up. */
  | { readonly notBegun: Failure; readonly retryAfterMs: number; readonly outcome?: RecordDetail['outcome'] }
  /** It never began, and will not: the process is cancelled, past its deadline, or about to be released. */
  | { readonly withdrawn: true }
  /** A transaction has recorded itself. */
  | { readonly recorded: { readonly event: JournalEvent; readonly encodedResult: EncodedResult } }
  /** A command or child is under way. */
  | { readonly begun: true }

export interface FailedAttempt {
  readonly failed: Failure
  readonly startedAt: number
  /** Undefined: it never began. */
  readonly outcome: RecordDetail['outcome']
  /** The outcome of an at-most-once call is unknown: an operator must settle it. */
  readonly unanswered?: { readonly noInquire: boolean }
}

export interface Arrival {
  readonly call: CallState
  readonly attempted: Attempted
}

/** A result as it will be read back: what the first execution sees is what a replay sees. */
export interface EncodedResult {
  readonly encoded: Encoded | undefined
  readonly value: unknown
}
