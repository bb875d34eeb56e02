import type { DirectConnection } from './direct.js'
import type { Executor, Queryable } from './executor.js'
import type { Transaction, TransactionOptions } from './transaction.js'

/** The database as the rest of the engine sees it. `run` is one statement of its own on any connection. */
export interface Database extends Executor {
  readonly schema: string
  /** Host, port, database and user for messages; never the password. */
  readonly target: string
  /** Our SQL with the schema really in use instead of `holdfast.`. */
  sql(text: string): string
  /**
   * Runs the function in a transaction: committed when it returns, rolled back when it throws. A commit whose answer
   * was lost is an error with the code HF_OUTCOME_UNKNOWN.
   */
  transaction<T>(work: (tx: Transaction) => Promise<T>, options?: TransactionOptions): Promise<T>
  /**
   * The same as `run`, on a few connections that nothing else uses: for claims and heartbeats, which must continue while user
   * transactions, or whatever else a user's pool serves, have taken all others.
   */
  readonly reserved: Executor
  /** Runs our statements inside a caller's transaction, where each takes one parameter of type text (see caller.ts). */
  inside(caller: Queryable): Executor
  /** A separate connection, outside the pool, which the caller closes. */
  connect(): Promise<DirectConnection>
  /** Ends our own pool and all direct connections. A user's pool stays open. */
  close(): Promise<void>
}
