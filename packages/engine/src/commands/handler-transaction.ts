import { setTimeout as sleep } from 'node:timers/promises'
import { HoldfastError } from '../kernel/errors.js'
import type { Database, Executor, LazySignal, Queryable } from '../kernel/model/index.js'
import type { CommandCall } from './command-call.js'

/** How long the transaction of a handler may take unless its definition says otherwise, in milliseconds. */
const TRANSACTION_LIMIT = 30_000

interface HandlerTransaction {
  readonly db: Database
  readonly queue: string
  readonly leaseMs: number
  readonly graceMs: number
  /** Records the end of the attempt with this result; false when the lease is lost. */
  readonly finish: (tx: Executor, result: unknown, call: CommandCall) => Promise<boolean>
}

/**
 * The handler's rows and the command's completion in one transaction; the message is locked first. When its time is
 * over, the lease is lost or the worker stops, it is rolled back at once, so that row and connection are free. The
 * attempt fails only when its function has ended or the grace time is over, so that the next attempt does not run beside it.
 */
export async function completeWithin<T>(
  { db, queue, leaseMs, graceMs, finish }: HandlerTransaction,
  call: CommandCall,
  over: LazySignal,
  work: (tx: Queryable) => Promise<T>,
): Promise<T> {
  const { command } = call
  const lost = () => new HoldfastError('HF_LEASE_LOST', { id: command.commandId, epoch: String(command.epoch) })
  // A handler that continues after its time limit: the attempt has been decided without it.
  if (call.ended) throw lost()
  const limitMs = call.handler?.definition.transactionTimeoutMs ?? TRANSACTION_LIMIT
  let working: Promise<unknown> | undefined
  try {
    const value = await db.transaction(
      async (tx) => {
        const [held] = await tx.run<{ held: boolean }>(holdStatement, [queue, command.id, command.epoch])
        if (!held?.held) throw lost()
        const running = (async () => work(tx))()
        working = running
          .catch(() => undefined)
          .finally(() => {
            working = undefined
          })
        const result = await running
        if (!(await finish(tx, result, call))) throw lost()
        return result
      },
      { userCode: { limitMs, idleMs: leaseMs, signal: over.signal } },
    )
    call.finished = true
    return value
  } catch (error) {
    if (working) await callOff(working, over, error, graceMs)
    throw error
  }
}

/** The function still runs although its transaction is over: it is told to stop, and awaited. */
async function callOff(working: Promise<unknown>, over: LazySignal, error: unknown, graceMs: number): Promise<void> {
  over.abort(error instanceof Error ? error : new Error(String(error)))
  const waiting = new AbortController()
  await Promise.race([working, sleep(graceMs, undefined, { signal: waiting.signal }).catch(() => undefined)])
  waiting.abort()
}

const holdStatement = { name: 'commands.hold', text: 'select holdfast.hold_command($1, $2, $3) as held' }
