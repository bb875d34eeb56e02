import { HoldfastError } from '../errors.js'
import { createBackoff } from '../retry/backoff.js'
import type { Checkout, LentConnection } from './checkout.js'
import type { DriverResult } from './driver.js'
import type { Executor, Queryable, Statement } from './executor.js'
import { GIVE_UP_AFTER, withDatabaseRetry } from './retrying.js'
import type { Session } from './session.js'
import { judgeResult, mayKeepSetting, refuseControl } from './transaction-control.js'
import {
  type AnswerLimits,
  idleLimit,
  startAnswerLimit,
  startTransactionLimit,
  type UserCodeLimits,
} from './transaction-limit.js'
import { markNotApplied, outcomeUnknown } from './transient.js'

/** A transaction of our own. Statements run one after the other; it must not be used after the function has ended. */
export interface Transaction extends Executor, Queryable {
  query(text: string, params?: unknown[], timeLimit?: number): Promise<{ rows: unknown[] }>
}

export interface TransactionOptions {
  /** Run the function again after a transient error before the commit. It must be safe to repeat. */
  readonly retry?: boolean
  /** The function recognises its own earlier commit: run it again also after a commit whose answer was lost. */
  readonly idempotent?: boolean
  /** User code runs in it, within these limits. */
  readonly userCode?: UserCodeLimits
  /** A person waits for the result (operator-call.ts). */
  readonly answer?: AnswerLimits
}

export async function runTransaction<T>(
  checkout: Checkout,
  session: Session,
  work: (tx: Transaction) => Promise<T>,
  { retry = false, idempotent = false, userCode, answer }: TransactionOptions,
): Promise<T> {
  const once = () =>
    userCode
      ? checkout.lendToUser((connection) => transact(connection, session, work, userCode), userCode.signal)
      : checkout.lend((connection) => transact(connection, session, work, undefined, answer))
  if (!retry) return once()
  return withDatabaseRetry(once, {
    name: 'the transaction',
    // An unknown commit is the caller's to judge: only it knows whether the work may happen twice.
    idempotent,
    giveUpAfter: GIVE_UP_AFTER,
    backoff: createBackoff({ base: 10, cap: 1_000 }),
  })
}

// Named, because a role or database may default to another level, and our statements are written for this one.
const BEGIN = 'begin isolation level read committed'

async function transact<T>(
  connection: LentConnection,
  session: Session,
  work: (tx: Transaction) => Promise<T>,
  userCode?: UserCodeLimits,
  answer?: AnswerLimits,
): Promise<T> {
  const { tx, end, checkWhole } = openTransaction(connection, session, userCode !== undefined)
  const limit = userCode ? startTransactionLimit(connection, userCode) : answer && startAnswerLimit(answer)
  try {
    // It waited for its connection for too long.
    if (limit?.isOver) await limit.over
    const settings = userCode ? userSettings(userCode, session) : answer ? answerSettings(answer) : []
    await beforeCommit(session.send(connection, 'begin', [BEGIN, ...settings].join('; ')))
    const result = await (limit ? Promise.race([work(tx), limit.over]) : work(tx))
    end()
    limit?.clear()
    checkWhole()
    answer?.onCommit()
    await commit(connection, session, answer?.commitMs)
    return result
  } catch (error) {
    end()
    if (limit?.isOver) {
      // The function may still run, and the server may be at work on its last statement: nothing is said to either.
      connection.discard()
      markNotApplied(error)
    }
    limit?.clear()
    await rollback(connection, session)
    throw error
  }
}

/** In the same message as the begin. The last one is a mark of ours, which goes when the transaction ends. */
function userSettings({ limitMs, idleMs }: UserCodeLimits, session: Session): string[] {
  const settings = [
    `set local idle_in_transaction_session_timeout = ${idleLimit(idleMs)}`,
    "set local holdfast.transaction = 'open'",
  ]
  // A little later than our own limit, which can say why.
  if (session.hasTransactionTimeout()) settings.push(`set local transaction_timeout = ${Math.ceil(limitMs) + 5_000}`)
  return settings
}

const answerSettings = ({ lockMs }: AnswerLimits): string[] => [`set local lock_timeout = ${Math.ceil(lockMs)}`]

interface OpenTransaction {
  readonly tx: Transaction
  readonly end: () => void
  /** Throws where user code has ended the transaction, also if that code has caught the error. */
  readonly checkWhole: () => void
}

function openTransaction(connection: LentConnection, session: Session, watched: boolean): OpenTransaction {
  let ended = false
  let broken: Error | undefined
  function use(): LentConnection {
    // The connection is in use elsewhere by now: a late statement would land in another transaction.
    if (ended) throw new HoldfastError('HF_STOPPED', { what: 'the transaction' })
    if (broken) throw broken
    return connection
  }

  async function userQuery(text: string, params?: unknown[], timeLimit?: number): Promise<DriverResult> {
    try {
      refuseControl(text)
    } catch (error) {
      broken = error as Error
      throw error
    }
    const result = await beforeCommit(session.send(use(), 'query', text, params, timeLimit))
    if (mayKeepSetting(text)) connection.discard()
    const judgement = judgeResult(result, text)
    if (judgement !== 'fine') await settle(judgement)
    return result
  }

  async function settle(judgement: 'ended' | 'ask' | 'session'): Promise<void> {
    if (judgement === 'ask' && (await isOpen(connection, session))) return
    // Whatever state the connection is in, it is not for the next one.
    connection.discard()
    const problem =
      judgement === 'session' ? 'changed a setting of the session' : 'ended the transaction that it runs in'
    broken = new HoldfastError('HF_TRANSACTION_ENDED', { problem })
    throw broken
  }

  const tx: Transaction = {
    // The rows are what the statement selects; its author names their shape.
    run: async <Row extends object>(statement: Statement, params?: readonly unknown[]) =>
      (await beforeCommit(session.run(use(), 'within', statement, params))) as Row[],
    query: watched
      ? userQuery
      : async (text, params, timeLimit) => beforeCommit(session.send(use(), 'query', text, params, timeLimit)),
  }
  return {
    tx,
    end: () => {
      ended = true
    },
    checkWhole: () => {
      if (broken) throw broken
    },
  }
}

async function isOpen(connection: LentConnection, session: Session): Promise<boolean> {
  const text = "select coalesce(pg_catalog.current_setting('holdfast.transaction', true), '') as state"
  const { rows } = await session.send(connection, 'find transaction', text)
  return (rows as [{ state: string }])[0].state === 'open'
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

async function commit(connection: LentConnection, session: Session, timeLimit?: number): Promise<void> {
  let result: DriverResult
  try {
    result = await session.send(connection, 'commit', 'commit', undefined, timeLimit)
  } catch (error) {
    if (!outcomeUnknown(error)) throw error
    connection.discard()
    const problem = error instanceof Error ? error.message : String(error)
    throw new HoldfastError('HF_OUTCOME_UNKNOWN', { operation: 'a commit', problem }, { cause: error })
  }
  // PostgreSQL responds to the commit of a failed transaction with ROLLBACK and no error: the caller caught the error of a
  // statement and went on as if it had succeeded.
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
