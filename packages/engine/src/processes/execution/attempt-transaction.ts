import { HoldfastError } from '../../kernel/errors.js'
import type { Database, Executor, Queryable } from '../../kernel/model/index.js'
import { type JournalEvent, type ProcessWrite, writeProcesses } from '../queries/write-processes.js'
import { reportWrite } from '../report.js'
import { databaseTrouble, encodeResult, isToTurn } from './attempt.js'
import type { Attempted, EncodedResult } from './attempted.js'
import type { TransactionSpec } from './call-spec.js'
import type { Call } from './calls.js'
import type { Execution } from './execution.js'
import { insideCall } from './inside-call.js'
import { recordOf } from './journal.js'
import { isLostLease, leaseLost } from './lost.js'

/**
 * The user's SQL and the step's record in one transaction. It locks the process first: no worker can claim it
 * before the commit, and heartbeats and claims pass over it. Nothing else of this execution is written meanwhile, so that
 * the record's number is the next one.
 */
export async function attemptTransaction(execution: Execution, call: Call, spec: TransactionSpec): Promise<Attempted> {
  if (isToTurn(execution)) return { withdrawn: true }
  const startedAt = execution.now()
  let written:
    | { readonly event: JournalEvent; readonly encodedResult: EncodedResult; readonly write: ProcessWrite }
    | undefined
  const { journal } = execution
  const { db } = execution.parts
  const queries = new UserQueries()
  try {
    await journal.exclusively(() =>
      db.transaction(
        async (tx) => {
          const { item } = execution
          const [held] = await tx.run<{ held: boolean }>(holdStatement, [item.id, item.epoch])
          if (!held?.held) throw leaseLost(item)
          const value = await insideCall(execution, call, () => queries.run(spec.work, tx))
          const encodedResult = encodeResult(execution, call, value)
          const detail = { startedAt: Math.floor(startedAt) }
          const fields = { status: 'COMPLETED', attempt: call.attempts + 1, detail } as const
          const { event, write } = journal.beginCommit(recordOf(call, fields, encodedResult))
          written = { event, encodedResult, write }
          const [answer] = await writeProcesses(tx, [write])
          if (answer === undefined || answer === 'held' || 'failed' in answer) throw leaseLost(item)
        },
        limitsOf(execution, spec),
      ),
    )
  } catch (error) {
    if (isLostLease(error)) throw error
    if (!written || !(await wasCommitted(db, execution, written.event, error))) {
      if (written) journal.rolledBack(written.event)
      const trouble = queries.foreign === error ? undefined : databaseTrouble(execution, error)
      // Rolled back as a whole: whatever was thrown, nothing was done.
      return trouble ?? { failed: execution.classify(error), startedAt, outcome: 'refused' }
    }
  }
  if (!written) throw new Error('a transaction committed without its record')
  journal.committed(written.event)
  reportWrite(execution.parts.reports, written.write)
  return { recorded: written }
}

/** Rolled back when its time is over, whatever the code does: the connection, the row and the slot are free again. */
function limitsOf({ lease }: Execution, { timeoutMs }: TransactionSpec) {
  return { userCode: { limitMs: timeoutMs, idleMs: Math.max(1, lease.remaining()), signal: lease.signal } }
}

/** The user's code gets no more of the transaction than what it needs; and we know which errors are not the database's. */
class UserQueries {
  /** What the code threw by itself. */
  foreign: unknown
  #ofDatabase = new WeakSet<object>()

  async run(work: TransactionSpec['work'], tx: Queryable): Promise<unknown> {
    try {
      return await work({ query: (text, params) => this.#query(tx, text, params) })
    } catch (error) {
      if (!(error instanceof Error && this.#ofDatabase.has(error))) this.foreign = error
      throw error
    }
  }

  async #query(tx: Queryable, text: string, params?: unknown[]): Promise<{ rows: unknown[] }> {
    try {
      return await tx.query(text, params)
    } catch (error) {
      if (error instanceof Error) this.#ofDatabase.add(error)
      throw error
    }
  }
}

/**
 * The result of the commit was lost: the record shows whether it took place. The server may still be at work on it, so
 * the process is locked first, which waits until that is over.
 */
async function wasCommitted(db: Database, { item }: Execution, event: JournalEvent, error: unknown): Promise<boolean> {
  if (!(error instanceof HoldfastError && error.code === 'HF_OUTCOME_UNKNOWN')) return false
  const look = async (tx: Executor) => {
    await tx.run(holdStatement, [item.id, item.epoch])
    return tx.run(findStatement, [item.id, item.generation, event.seq, item.epoch])
  }
  const rows = await db.transaction(look, { retry: true })
  return rows.length > 0
}

const holdStatement = { name: 'processes.hold', text: 'select holdfast.hold_process($1, $2) as held' }
const findStatement = {
  name: 'processes.find-record',
  text: `
    select 1 from holdfast.process_history
    where process_id = $1 and generation = $2 and seq = $3 and epoch = $4`,
}
