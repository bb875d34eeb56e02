import { HoldfastError } from '../errors.js'
import type { Executor, Queryable, Statement } from './executor.js'
import type { Session } from './session.js'

/**
 * Runs our statements inside a caller's own transaction (K-15): unnamed, because the connection is not ours to leave
 * prepared statements on, and without a retry, because a failed statement ends the caller's transaction.
 *
 * A statement for callers' transactions takes ONE parameter of type text, `$1::text::jsonb`: postgres.js would encode a
 * value for a jsonb parameter as JSON a second time, and the libraries disagree about arrays and dates. A text arrives
 * as it is through all of them.
 */
export function insideCaller(caller: Queryable, session: Session): Executor {
  checkCaller(caller)
  return {
    run: async <Row extends object>(statement: Statement, params: readonly unknown[] = []) =>
      session.withFaults(statement.name, async () => {
        const { rows } = await caller.query(session.sql(statement.text), [...params])
        return rows as Row[]
      }),
  }
}

function checkCaller(caller: Queryable): void {
  const problem = problemOf(caller)
  if (problem) throw new HoldfastError('HF_INVALID_OPTION', { where: 'holdfast', option: 'transaction', problem })
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
