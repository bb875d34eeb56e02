import type { Duration } from '../kernel/duration/duration.js'
import type { Logger, Queryable } from '../kernel/model/index.js'

/** The context of a handler's call. */
export interface CommandContext {
  readonly domain: string
  readonly type: string
  readonly commandId: string
  readonly correlationId: string | null
  readonly batchId: string | null
  /** PGMQ's id of the message. */
  readonly messageId: string
  /** The number of this call, from 1. */
  readonly attempt: number
  readonly maxAttempts: number
  readonly isLastAttempt: boolean
  /** The same on every attempt: pass it to the systems that you call, so that a repeated call has one effect. */
  readonly idempotencyKey: string
  /** Fires when the lease is lost, the time limit is reached, or the worker is stopped now. */
  readonly signal: AbortSignal
  readonly logger: Logger
  /** Extends the lease for at least this long, for code that keeps this process from sending heartbeats. */
  extend(duration: Duration): Promise<void>
  /**
   * Runs your SQL in a transaction that also completes the command with what the function returns: both commit, or
   * neither. What the handler does afterwards does not change the result.
   *
   * @example
   * hf.handle(BookRisk, (request, ctx) =>
   *   ctx.transaction(async (tx) => {
   *     await tx.query('insert into booking (id) values ($1)', [ctx.commandId])
   *     return { reference: ctx.commandId }
   *   }))
   */
  transaction<T>(work: (tx: Queryable) => Promise<T>): Promise<T>
}
