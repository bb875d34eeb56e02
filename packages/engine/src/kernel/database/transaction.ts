import { HoldfastError } from '../errors.js'
import { createBackoff } from '../retry/backoff.js'
import type { Checkout, LentConnection } from './checkout.js'
import type { DriverResult } from './driver.js'
import type { Executor, Queryable, Statement } from './executor.js'
import { withDatabaseRetry } from './retrying.js'
import type { Session } from './session.js'
import { markNotApplied, outcomeUnknown } from './transient.js'

/** A transaction of our own. Statements run one after the other; it must not be used after the function has ended. */
export interface Transaction extends Executor, Queryable {
  query(text: string, params?: unknown[], timeLimit?: number): Promise<{ rows: unknown[] }>
}

export interface TransactionOptions {
  /** Run the function again when the database gave up on it before the commit. It must be harmless to repeat. */
  readonly retry?: boolean
  /** The function recognises its own earlier commit: run it again also after a commit whose answer was lost. */
  readonly idempotent?: boolean
}

/** How long a transaction is tried again for before its error is passed on, in milliseconds. */
const GIVE_UP_AFTER = 30_000

export async function runTransaction<T>(
  checkout: Checkout,
  session: Session,
  work: (tx: Transaction) => Promise<T>,
  { retry = false, idempotent = false }: TransactionOptions,
): Promise<T> {
  const once = () => checkout.lend((connection) => transact(connection, session, work))
  if (!retry) return once()
  return withDatabaseRetry(once, {
    name: 'the transaction',
    // An unknown commit is the caller's to judge: only it knows whether the work may happen twice.
    idempotent,
    giveUpAfter: GIVE_UP_AFTER,
    backoff: createBackoff({ base: 10, cap: 1_000 }),
  })
}

async function transact<T>(
  connection: LentConnection,
  session: Session,
  work: (tx: Transaction) => Promise<T>,
): Promise<T> {
  const { tx, end } = openTransaction(connection, session)
  try {
    // Named, because a role or database may default to another level, and our statements are written for this one.
    await beforeCommit(session.send(connection, 'begin', 'begin isolation level read committed'))
    const result = await work(tx)
    end()
    await commit(connection, session)
    return result
  } catch (error) {
    end()
    await rollback(connection, session)
    throw error
  }
}

function openTransaction(connection: LentConnection, session: Session): { tx: Transaction; end: () => void } {
  let ended = false
  function use(): LentConnection {
    // The connection is somebody else's by now: a late statement would land in a stranger's transaction.
    if (ended) throw new HoldfastError('HF_STOPPED', { what: 'the transaction' })
    return connection
  }
  const tx: Transaction = {
    // The rows are what the statement selects; its author names their shape.
    run: async <Row extends object>(statement: Statement, params?: readonly unknown[]) =>
      (await beforeCommit(session.run(use(), 'within', statement, params))) as Row[],
    query: async (text, params, timeLimit) => beforeCommit(session.send(use(), 'query', text, params, timeLimit)),
  }
  const end = () => {
    ended = true
  }
  return { tx, end }
}

/** Whatever breaks a transaction before its commit was sent: nothing of it is applied. */
async function beforeCommit<T>(sent: Promise<T>): Promise<T> {
  try {
    return await sent
  } catch (error) {
    markNotApplied(error)
    throw error
  }
}

async function commit(connection: LentConnection, session: Session): Promise<void> {
  let result: DriverResult
  try {
    result = await session.send(connection, 'commit', 'commit')
  } catch (error) {
    if (!outcomeUnknown(error)) throw error
    connection.discard()
    const problem = error instanceof Error ? error.message : String(error)
    throw new HoldfastError('HF_OUTCOME_UNKNOWN', { operation: 'a commit', problem }, { cause: error })
  }
  // PostgreSQL answers the commit of a failed transaction with ROLLBACK and no error: somebody swallowed the error of a
  // statement and took the rest for done.
  if (result.command === 'ROLLBACK') throw new HoldfastError('HF_TRANSACTION_FAILED', {})
}

async function rollback(connection: LentConnection, session: Session): Promise<void> {
  // No connection, nothing to say: the server rolls back itself.
  if (!connection.usable) return
  try {
    await session.send(connection, 'rollback', 'rollback')
  } catch {
    // Closing the connection ends its transaction as well; the caller gets the error that led here.
    connection.discard()
  }
}
