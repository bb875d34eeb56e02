import type { Notes } from '../kernel/codec/notes.js'
import type { FailureKind } from '../kernel/failure/failure-errors.js'
import type { EndStatus } from './states.js'

/** The calls of user code; each is identified by its name and occurrence. */
export type CallKind = 'STEP' | 'TRANSACTION' | 'SIDE_EFFECT' | 'WAIT' | 'EVENT' | 'SLEEP' | 'COMMAND' | 'CHILD'

/** The others: a compensated step, the beginning of a compensation, and operations. */
export type RecordKind = CallKind | 'COMPENSATION' | 'UNWIND' | 'RETRY' | 'RESUME' | 'RESOLVE'

export type RecordStatus = 'STARTED' | 'COMPLETED' | 'FAILED' | 'WAITING_RETRY'

/** A failure as it is recorded. */
export interface RecordedFailure {
  readonly kind: FailureKind
  readonly code: string
  readonly message: string
  readonly fingerprint: string
  readonly details?: unknown
  /** Where it was thrown, at most 4 kB. */
  readonly stack?: string
  /** What user code threw, where `code` is one of ours: troubles are listed under it, as in the other models. */
  readonly cause?: { readonly code: string; readonly message: string }
}

/** What only some records have. */
export interface RecordDetail {
  readonly maxAttempts?: number
  /** When the call of user code began, in milliseconds of the database's clock. */
  readonly startedAt?: number
  /** What the step was asked for, where it says so. */
  readonly request?: unknown
  readonly error?: RecordedFailure
  /** The failure was thrown into user code: the call has ended. */
  readonly thrown?: boolean
  /** `execute` had ended when the call failed: the failure decides nothing. */
  readonly afterEnd?: boolean
  /**
   * Of an attempt that has ended without a result: whether its code said that nothing was done. `notDone`: `inquire`
   * or a person said so of all attempts up to here. Not there: the attempt never began.
   */
  readonly outcome?: 'refused' | 'unknown' | 'notDone'
  /** Of `STARTED`: written by the next worker after a crash or a lost lease. The call may have begun. */
  readonly recovered?: boolean
  /** Of `OUTCOME_UNKNOWN`: the call has no `inquire`, so only a person can find out its outcome. */
  readonly noInquire?: boolean
  /** Of `RESOLVE`: what the person said. */
  readonly resolved?: 'done' | 'notDone' | 'skipped'
  /** What was recorded is `undefined`. */
  readonly nothing?: boolean
  readonly timeoutMs?: number
  readonly timedOut?: boolean
  /** The number of the response that an event took. */
  readonly response?: number
  /** Where the compensation ends, and why it began. */
  readonly end?: EndStatus
  readonly reason?: 'FAILURE' | 'DEADLINE' | 'CANCEL' | 'TIMEOUT'
  /** The command or child process that was started. */
  readonly startedId?: string
}

/** One row of history. */
export interface HistoryRecord {
  readonly seq: number
  /** Milliseconds of the database's clock. */
  readonly at: number
  readonly kind: RecordKind
  readonly name: string
  readonly occurrence: number
  readonly status: RecordStatus
  readonly attempt: number | null
  /** The last response in the state from here on, where that changed. */
  readonly seen: number | null
  readonly nextAt: number | null
  readonly result: unknown
  readonly notes: Notes | null
  readonly detail: RecordDetail | null
  readonly epoch: number
}

export interface RecordedResponse {
  readonly number: number
  readonly name: string
  readonly data: unknown
  readonly notes: Notes | null
}

/** A row as the claim tells it: a list, because names would be most of a long history. */
export type HistoryRow = readonly [
  seq: number,
  at: number,
  kind: RecordKind,
  name: string,
  occurrence: number,
  status: RecordStatus,
  attempt: number | null,
  seen: number | null,
  nextAt: number | null,
  result: unknown,
  notes: Notes | null,
  detail: RecordDetail | null,
  epoch: number,
]

export type ResponseRow = readonly [number: number, name: string, data: unknown, notes: Notes | null]

export function toHistoryRecord(row: HistoryRow): HistoryRecord {
  const [seq, at, kind, name, occurrence, status, attempt, seen, nextAt, result, notes, detail, epoch] = row
  return { seq, at, kind, name, occurrence, status, attempt, seen, nextAt, result, notes, detail, epoch }
}

export function toResponse([number, name, data, notes]: ResponseRow): RecordedResponse {
  return { number, name, data, notes }
}

/** `bookRisk`, and `bookRisk#2` where the name is used again. */
export function callId(name: string, occurrence: number): string {
  return occurrence === 1 ? name : `${name}#${occurrence}`
}
