import { HoldfastError } from '../errors.js'
import { invalidOption } from '../validation/invalid-option.js'
import type { Executor, Queryable, Statement } from './executor.js'
import type { Session } from './session.js'
import { codeOf } from './transient.js'

/**
 * Runs our statements inside a caller's own transaction: unnamed, because the connection is not ours to leave
 * prepared statements on, and without a retry, because a failed statement ends the caller's transaction.
 *
 * A statement for callers' transactions takes ONE parameter of type text, `$1::text::jsonb`: postgres.js would encode a
 * value for a jsonb parameter as JSON a second time, and the libraries disagree about arrays and dates. A text arrives
 * as it is through all of them.
 */
export function insideCaller(caller: Queryable, session: Session): Executor {
  checkCaller(caller)
  let inTransaction: Promise<void> | undefined
  return {
    run: async <Row extends object>(statement: Statement, params: readonly unknown[] = []) =>
      session.withFaults(statement.name, async () => {
        inTransaction ??= checkTransaction(caller)
        await inTransaction
        const { rows } = await caller.query(session.sql(statement.text), [...params])
        return rows as Row[]
      }),
  }
}

/**
 * A `pg` client without `begin` would commit each of our statements by itself. Such a client knows whether it is in a transaction,
 * at no cost; where it says no, or is too old to say, the server is asked, since a `begin` may still be on its way. What other
 * libraries give is a transaction by the way it is got.
 */
async function checkTransaction(caller: Queryable): Promise<void> {
  if (!('processID' in caller)) return
  if ('getTransactionStatus' in caller && typeof caller.getTransactionStatus === 'function') {
    if (caller.getTransactionStatus() !== 'I') return
  }
  try {
    await caller.query('savepoint holdfast_check')
  } catch (error) {
    if (codeOf(error) === NO_ACTIVE_TRANSACTION) throw new HoldfastError('HF_NOT_IN_TRANSACTION', {}, { cause: error })
    throw error
  }
  await caller.query('release savepoint holdfast_check')
}

const NO_ACTIVE_TRANSACTION = '25P01'

function checkCaller(caller: Queryable): void {
  const problem = problemOf(caller)
  if (problem) throw invalidOption('holdfast', 'transaction', problem)
}

function problemOf(caller: unknown): string | undefined {
  if (typeof caller !== 'object' || caller === null || !('query' in caller) || typeof caller.query !== 'function') {
    return 'needs a method `query(text, params)`; docs/guides/transactions.md has adapters for other libraries'
  }
  // A pool has `query` too, but every call may go to another connection: nothing would commit or roll back together.
  if ('totalCount' in caller && 'idleCount' in caller) {
    return 'is a pool, not a transaction; give the client on which you ran `begin`'
  }
  return undefined
}
