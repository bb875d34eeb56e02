import { setTimeout as sleep } from 'node:timers/promises'
import { codeOf, isTransient } from '../database/transient.js'
import { formatDuration } from '../duration/duration.js'
import { HoldfastError } from '../errors.js'
import type { Logger } from '../logger.js'
import type { Metrics } from '../metrics/metrics.js'
import { type Backoff, createBackoff } from '../retry/backoff.js'

/** The outcome of one write: its result, or `held`: another transaction has locked its row, and it is tried again apart. */
export type Outcome<Result> = { readonly done: Result } | { readonly failed: Error } | 'held'

export type Flush<Write, Result> = (writes: readonly Write[]) => Promise<readonly Outcome<Result>[]>

export interface Pending<Write, Result> {
  readonly write: Write
  readonly key: string
  readonly since: number
  /** About how many bytes it is. */
  readonly size: number
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}

interface FlusherOptions<Write, Result> {
  readonly name: string
  readonly flush: Flush<Write, Result>
  readonly giveUpAfter?: number
  readonly signal: AbortSignal
  readonly logger: Logger
  readonly metrics: Metrics
  /** Called once for every entry, right after its promise was settled. */
  readonly settled: (entry: Pending<Write, Result>) => void
}

/** The error of a statement with a `lock_timeout` that would have to wait for a row or a key locked by another transaction. */
const LOCK_NOT_AVAILABLE = '55P03'

/** Ended by statement_timeout, or by an administrator. */
const QUERY_CANCELED = '57014'

/** Errors that are about the statement or the role, not about a row: splitting the batch would find nothing. */
const NOT_ABOUT_A_ROW = /^(42|28|3D|3F|0A)/

/**
 * Commits one batch, whatever the database does: repeats it during an outage, splits it when
 * a row is bad, and sets locked rows aside so that they delay no other write.
 */
export function createFlusher<Write, Result>(options: FlusherOptions<Write, Result>) {
  type Entry = Pending<Write, Result>
  const { name, flush, giveUpAfter, signal, logger, metrics, settled } = options
  const labels = { model: name }

  /** Resolves when every entry is settled or set aside; never rejects. */
  async function flushAll(batch: readonly Entry[]): Promise<void> {
    const held = await settleWhatCan(batch)
    if (held.length > 0) void retryApart(held)
  }

  /** Held rows have a cycle of their own: their holder may be a user's transaction that stays open for minutes. */
  async function retryApart(entries: readonly Entry[]): Promise<void> {
    const backoff = createBackoff({ base: 5, cap: 250 })
    let held = entries
    while (held.length > 0) {
      await pause(backoff.next())
      held = await settleWhatCan(giveUpOnLate(held, new Error('another transaction has locked the row')))
    }
  }

  /** Repeats the flush until the database has committed it, settles the callers' promises, and returns the entries that are held. */
  async function settleWhatCan(batch: readonly Entry[]): Promise<readonly Entry[]> {
    let backoff: Backoff | undefined
    let entries = batch
    while (entries.length > 0) {
      if (signal.aborted) return refuse(entries, new HoldfastError('HF_STOPPED', { what: name }))
      try {
        return settle(entries, await timedFlush(entries))
      } catch (error) {
        if (codeOf(error) === LOCK_NOT_AVAILABLE) return splitOrHold(entries)
        if (!isTransient(error)) return splitOrRefuse(entries, error)
        metrics.count('database_retries', labels)
        // Unchanged it would run into the limit again and again.
        if (ranOutOfTime(error) && entries.length > 1) {
          logger.warn({ err: error, batch: name, writes: entries.length }, 'a flush took too long; halving it')
          return splitInHalves(giveUpOnLate(entries, error))
        }
        logger.warn(
          { err: error, batch: name, writes: entries.length },
          'the database did not take a flush; repeating it',
        )
        entries = giveUpOnLate(entries, error)
        backoff ??= createBackoff({ base: 20, cap: 2_000 })
        if (entries.length > 0) await pause(backoff.next())
      }
    }
    return []
  }

  async function timedFlush(entries: readonly Entry[]): Promise<readonly Outcome<Result>[]> {
    const started = performance.now()
    const outcomes = await flush(entries.map((entry) => entry.write))
    if (outcomes.length !== entries.length) {
      throw new Error(`${name} answered ${outcomes.length} of ${entries.length} writes`)
    }
    metrics.observe('flush_size', labels, entries.length)
    metrics.observe('flush_milliseconds', labels, performance.now() - started)
    return outcomes
  }

  function settle(entries: readonly Entry[], outcomes: readonly Outcome<Result>[]): readonly Entry[] {
    const held: Entry[] = []
    entries.forEach((entry, index) => {
      const outcome = outcomes[index]
      if (outcome === undefined || outcome === 'held') held.push(entry)
      else answer(entry, outcome)
    })
    return held
  }

  /** A data error belongs to one row: halving finds it, and its neighbours are committed on the way. */
  async function splitOrRefuse(entries: readonly Entry[], error: unknown): Promise<readonly Entry[]> {
    if (entries.length === 1 || NOT_ABOUT_A_ROW.test(codeOf(error))) return refuse(entries, error)
    return splitInHalves(entries)
  }

  /** A statement whose wait for a lock ended without the lock: halving finds the locked row, and the other entries are written. */
  async function splitOrHold(entries: readonly Entry[]): Promise<readonly Entry[]> {
    return entries.length === 1 ? entries : splitInHalves(entries)
  }

  async function splitInHalves(entries: readonly Entry[]): Promise<readonly Entry[]> {
    if (entries.length === 0) return []
    const middle = Math.ceil(entries.length / 2)
    const held = await settleWhatCan(entries.slice(0, middle))
    return [...held, ...(await settleWhatCan(entries.slice(middle)))]
  }

  function giveUpOnLate(entries: readonly Entry[], cause: unknown): readonly Entry[] {
    if (giveUpAfter === undefined) return entries
    const late = entries.filter((entry) => performance.now() - entry.since >= giveUpAfter)
    if (late.length === 0) return entries
    const problem = cause instanceof Error ? cause.message : String(cause)
    refuse(
      late,
      new HoldfastError(
        'HF_DATABASE_UNAVAILABLE',
        { operation: name, waited: formatDuration(giveUpAfter), problem },
        { cause },
      ),
    )
    return entries.filter((entry) => !late.includes(entry))
  }

  function refuse(entries: readonly Entry[], failed: unknown): readonly Entry[] {
    for (const entry of entries) answer(entry, { failed })
    return []
  }

  function answer(entry: Entry, outcome: { readonly done: Result } | { readonly failed: unknown }): void {
    if ('done' in outcome) entry.resolve(outcome.done)
    else entry.reject(outcome.failed)
    settled(entry)
  }

  async function pause(milliseconds: number): Promise<void> {
    // An abort only ends the pause; the cycle that called sees the signal by itself.
    await sleep(milliseconds, undefined, { signal }).catch(() => undefined)
  }

  return { flushAll }
}

/** The server's limit for a statement, or our own. */
function ranOutOfTime(error: unknown): boolean {
  return codeOf(error) === QUERY_CANCELED || (error instanceof Error && error.message === 'Query read timeout')
}
