import type { CompensateIf, Queryable } from '../../kernel/model/index.js'
import type { RetryPolicy } from '../../kernel/retry/retry-policy.js'
import type { CompensationCall, Inquiry, OnFailure, OnTimeout, StepCall } from '../context.js'

/** How a call is undone, and what its failure means. */
export interface Undoing {
  readonly compensate: ((result: unknown, call: CompensationCall) => unknown) | undefined
  readonly compensateIf: CompensateIf
  /** How its compensation is tried. */
  readonly compensateRetry: Attempts
  readonly compensateTimeoutMs: number
  readonly onFailure: OnFailure
}

/** All calls, the first included, and the delays between them. */
export interface Attempts {
  readonly maxAttempts: number
  readonly policy: RetryPolicy
}

export interface Attempting extends Undoing {
  readonly retry: Attempts
}

export interface StepSpec extends Attempting {
  readonly kind: 'STEP' | 'SIDE_EFFECT'
  readonly run: (call: StepCall) => unknown
  readonly timeoutMs: number
  readonly rateLimit: { readonly key: string; readonly maxWaitMs: number } | undefined
  readonly atMostOnce: boolean
  readonly inquire:
    | ((call: Pick<StepCall, 'idempotencyKey' | 'signal'>) => Promise<Inquiry<unknown>> | Inquiry<unknown>)
    | undefined
  readonly request: unknown
}

export interface TransactionSpec extends Attempting {
  readonly kind: 'TRANSACTION'
  readonly work: (tx: Queryable) => Promise<unknown>
  readonly timeoutMs: number
}

interface Waiting {
  /** The definition's, or what an operator has set, unless given. */
  readonly timeoutMs: number | undefined
  readonly onTimeout: OnTimeout
}

interface WaitSpec extends Waiting {
  readonly kind: 'WAIT'
  readonly condition: () => unknown
}

interface EventSpec extends Waiting {
  readonly kind: 'EVENT'
  readonly response: string
}

interface SleepSpec {
  readonly kind: 'SLEEP'
  readonly forMs?: number
  readonly until?: number
}

/** A command or a child: begun by `begin`, and then waited for like an event. */
export interface RemoteSpec extends Waiting, Undoing {
  readonly kind: 'COMMAND' | 'CHILD'
  /** Starts it under this id; harmless when repeated. */
  readonly begin: (id: string) => Promise<void>
  /**
   * For one that may have been started by an execution that was interrupted: makes sure that it exists, without letting it
   * run if it does not. After that it is cancelled like the others, and no worker can start it any more.
   */
  readonly withhold: (id: string) => Promise<void>
  /** Ends a command that has not begun; cancels a child, which undoes itself where asked for. Harmless when repeated. */
  readonly cancel: (id: string, compensate: boolean) => Promise<void>
}

export type CallSpec = StepSpec | TransactionSpec | WaitSpec | EventSpec | SleepSpec | RemoteSpec
export type WaitingSpec = WaitSpec | EventSpec | SleepSpec | RemoteSpec

export const isWaiting = (spec: CallSpec): spec is WaitingSpec =>
  spec.kind === 'WAIT' || spec.kind === 'EVENT' || spec.kind === 'SLEEP' || 'begin' in spec
