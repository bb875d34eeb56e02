import type { CallOutcome, Inquiry, Logger, Queryable } from '../kernel/model/index.js'
import type { Metadata } from './definition/definition.js'

/** The context of a handler's call. */
export interface StepContext<Input = unknown, Undone = unknown> {
  readonly instanceId: string
  readonly workflow: string
  readonly version: number
  /** The step; for a compensation the step that it undoes. */
  readonly stepName: string
  /** The name of the compensation that this is; null where the step itself is called. */
  readonly compensation: string | null
  /** The same on every attempt: pass it to the systems that you call, so that a repeated call has one effect. */
  readonly idempotencyKey: string
  /** For a compensation: the idempotency key of the step that it undoes. Null where the step itself is called. */
  readonly originalKey: string | null
  /** The number of this call, from 1. */
  readonly attempt: number
  readonly maxAttempts: number
  readonly isLastAttempt: boolean
  /** The output of the step before it; that of a join has each branch's output under its name. For a compensation: the input of its step. */
  readonly input: Input
  /** For a compensation: the output of its step; undefined if the step did not complete, or its outcome is unknown. */
  readonly output: Undone | undefined
  /**
   * For a compensation: what is known of the effect of the step. `completed`; `unknown`: it may have had its effect,
   * so check before you undo; `refused`: the step itself said that nothing was done. Null if the step itself is called.
   */
  readonly outcome: CallOutcome | null
  readonly metadata: Metadata
  /** Fires when the instance is cancelled or aborted, another branch has won, the time limit is reached, or the lease is lost. */
  readonly signal: AbortSignal
  readonly logger: Logger
  /**
   * Runs your SQL in a transaction that also completes the step with what the function returns: both commit, or neither.
   * What the handler does afterwards does not change the result.
   *
   * @example
   * hf.handle('BookStock', (order, ctx) =>
   *   ctx.transaction(async (tx) => {
   *     await tx.query('insert into booking (id) values ($1)', [ctx.idempotencyKey])
   *     return { booked: true }
   *   }))
   */
  transaction<T>(work: (tx: Queryable) => Promise<T>): Promise<T>
}

export type StepHandler<Input = unknown, Output = unknown, Undone = unknown> = (
  input: Input,
  context: StepContext<Input, Undone>,
) => Promise<Output> | Output

/** The context of `inquire`: the call whose outcome is unknown. */
export type InquireContext = Pick<
  StepContext,
  | 'instanceId'
  | 'workflow'
  | 'version'
  | 'stepName'
  | 'compensation'
  | 'idempotencyKey'
  | 'metadata'
  | 'signal'
  | 'logger'
>

/**
 * Finds out the outcome of a call that must not be repeated, by its idempotency key. Called after an error, a timeout or
 * a crash of a step marked `nonIdempotent`, and before an operator's retry calls the handler again.
 */
export type StepInquire<Input = unknown, Output = unknown> = (
  input: Input,
  context: InquireContext,
) => Promise<Inquiry<Output>> | Inquiry<Output>
