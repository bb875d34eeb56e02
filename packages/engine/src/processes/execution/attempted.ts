import type { Encoded } from '../../kernel/codec/codec.js'
import type { Failure } from '../../kernel/failure/classify.js'
import type { JournalEvent } from '../queries/write-processes.js'
import type { Call } from './calls.js'

/** How an attempt ended, before it is recorded. */
export type Attempted =
  | { readonly done: Sealed; readonly startedAt: number }
  | { readonly failed: Failure; readonly startedAt: number; readonly unknown?: boolean }
  | { readonly refused: Failure; readonly retryAfterMs: number }
  /** A transaction has recorded itself. */
  | { readonly recorded: { readonly event: JournalEvent; readonly sealed: Sealed } }
  /** A command or child is under way. */
  | { readonly begun: string }

export interface Arrival {
  readonly call: Call
  readonly attempted: Attempted
}

/** A result as it will be read back: what the first execution sees is what a replay sees (P-02). */
export interface Sealed {
  readonly encoded: Encoded | undefined
  readonly value: unknown
}
