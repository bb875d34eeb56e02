import { formatDuration } from '../duration/duration.js'
import { HoldfastError } from '../errors.js'
import { createBackoff } from '../retry/backoff.js'
import type { Database } from './database.js'
import type { Executor } from './executor.js'
import { codeOf, isTransient, outcomeUnknown } from './transient.js'

/**
 * Calls of operators. A person waits for the result and acts on it, so it comes within five seconds, and it says
 * whether the call took effect. HF_BUSY and HF_DATABASE_UNAVAILABLE: it did not and will not. HF_OUTCOME_UNKNOWN: the response to
 * its commit was lost, so it may have.
 */

/** Milliseconds for the whole call. */
const ANSWER_WITHIN = 5_000
/** Milliseconds until it must have got as far as its commit, which has the rest. */
const COMMIT_BY = 4_200
/** Milliseconds that it waits for a row which another transaction has locked. */
const LOCK = 3_000
/** The same in a call for many items of which one was locked: the search for it must not wait for each attempt. */
const SHORT_LOCK = 200
/** The same when no time is left for waiting. */
const LAST_LOCK = 20

const LOCK_NOT_AVAILABLE = '55P03'

interface OperatorCallOptions {
  readonly lockMs?: number
}

/**
 * Runs what an operator asked for in one transaction of its own, and returns within five seconds. A connection that is lost
 * before the commit is replaced and the work repeated meanwhile.
 *
 * @example
 * await operatorCall(db, `retry ${name} ${id}`, (tx) => operateProcesses(tx, 'RETRY', name, [id], actor, options))
 */
export async function operatorCall<T>(
  db: Database,
  operation: string,
  work: (tx: Executor) => Promise<T>,
  { lockMs = LOCK }: OperatorCallOptions = {},
): Promise<T> {
  const began = performance.now()
  const backoff = createBackoff({ base: 50, cap: 500 })
  let committing = false
  const answer = {
    lockMs,
    commitBy: began + COMMIT_BY,
    commitMs: ANSWER_WITHIN - COMMIT_BY,
    late: () => busy(operation, COMMIT_BY, 'the database did not execute it in time'),
    onCommit: () => {
      committing = true
    },
  }
  const silence = () => (committing ? unknown(operation) : answer.late())
  for (;;) {
    try {
      return await inTime(db.transaction(work, { answer }), began, silence)
    } catch (error) {
      if (codeOf(error) === LOCK_NOT_AVAILABLE) {
        throw busy(operation, lockMs, LOCKED, error)
      }
      if (!isTransient(error) || outcomeUnknown(error)) throw error
      const delay = backoff.next()
      if (performance.now() + delay > answer.commitBy) throw unavailable(operation, performance.now() - began, error)
      await new Promise((resolve) => setTimeout(resolve, delay))
    }
  }
}

/** Milliseconds that the calls of one operation on many items may still wait for locked rows, all together. */
export interface LockBudget {
  left: number
}

export const createLockBudget = (): LockBudget => ({ left: LOCK })

/**
 * The same for many items at once. A locked item does not keep the others from being done: after a short wait the work is told to skip
 * what is locked, and returns nothing for it. Work that still meets a lock is halved until the budget is used up. Returns what the work
 * returned, and the items that are locked.
 */
export async function operatorCallForMany<Item, Answer>(
  db: Database,
  operation: string,
  items: readonly Item[],
  work: (tx: Executor, items: readonly Item[], locked: 'wait' | 'skip') => Promise<readonly Answer[]>,
  budget: LockBudget = createLockBudget(),
): Promise<{ readonly answers: readonly Answer[]; readonly busy: readonly Item[] }> {
  const answers: Answer[] = []
  const busy: Item[] = []
  async function call(part: readonly Item[], locked: 'wait' | 'skip'): Promise<void> {
    const most = items.length === 1 ? LOCK : SHORT_LOCK
    const lockMs = Math.max(LAST_LOCK, Math.min(most, budget.left))
    try {
      answers.push(...(await operatorCall(db, operation, (tx) => work(tx, part, locked), { lockMs })))
      return
    } catch (error) {
      if (!(error instanceof HoldfastError && error.code === 'HF_BUSY')) throw error
      const met = codeOf(error.cause) === LOCK_NOT_AVAILABLE
      if (met) budget.left -= lockMs
      if (part.length === 1 || (met && locked === 'skip' && budget.left <= 0)) {
        busy.push(...part)
        return
      }
      if (met && locked === 'wait') return call(part, 'skip')
    }
    const middle = Math.ceil(part.length / 2)
    await call(part.slice(0, middle), locked)
    await call(part.slice(middle), locked)
  }
  await call(items, budget.left > 0 ? 'wait' : 'skip')
  return { answers, busy }
}

/** Waiting for a connection of an exhausted pool cannot be cancelled; the transaction ends by itself when it gets one. */
async function inTime<T>(running: Promise<T>, began: number, silence: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(silence()), Math.max(0, began + ANSWER_WITHIN + 100 - performance.now()))
  })
  try {
    return await Promise.race([running, over])
  } finally {
    clearTimeout(timer)
  }
}

/** The error of an item that a call for many found locked. */
export function lockedByOther(operation: string): HoldfastError<'HF_BUSY'> {
  return busy(operation, LOCK, LOCKED)
}

const LOCKED = 'another transaction has locked what it would change'

function busy(operation: string, waitedMs: number, problem: string, cause?: unknown): HoldfastError<'HF_BUSY'> {
  return new HoldfastError('HF_BUSY', { operation, waited: formatDuration(waitedMs), problem }, { cause })
}

function unknown(operation: string): HoldfastError<'HF_OUTCOME_UNKNOWN'> {
  return new HoldfastError('HF_OUTCOME_UNKNOWN', { operation, problem: 'the answer to its commit did not come' })
}

function unavailable(operation: string, waitedMs: number, cause: unknown): HoldfastError<'HF_DATABASE_UNAVAILABLE'> {
  const problem = `${cause instanceof Error ? cause.message : String(cause)}; it has not been applied`
  return new HoldfastError(
    'HF_DATABASE_UNAVAILABLE',
    { operation, waited: formatDuration(Math.round(waitedMs)), problem },
    { cause },
  )
}
