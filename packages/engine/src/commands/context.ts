import type { Queryable } from '../kernel/database/executor.js'
import type { Duration } from '../kernel/duration/duration.js'
import type { Logger } from '../kernel/logger.js'

/** What a handler knows of the command it is called for. */
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
  /** The same on every attempt: give it to whatever you call, so that a repeated call has one effect. */
  readonly idempotencyKey: string
  /** Fires when the lease is lost, the handler's time is over, or the worker is stopped now. */
  readonly signal: AbortSignal
  readonly logger: Logger
  /** Holds the command for at least so long, also while this process cannot send heartbeats. */
  extend(duration: Duration): Promise<void>
  /**
   * Runs your SQL in a transaction that also completes the command with what the function returns: both commit, or
   * neither. The handler ends with it; what it does afterwards changes nothing.
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
