import { setTimeout as sleep } from 'node:timers/promises'
import type { Executor } from '../database/executor.js'
import { isTransient } from '../database/transient.js'
import { formatDuration, LONGEST_TIMER_MS } from '../duration/duration.js'
import type { Work } from '../errors/entry.js'
import { HoldfastError } from '../errors.js'
import type { Logger } from '../logger.js'
import type { Model } from '../models.js'
import type { Listener } from '../notify/listener.js'
import { createBackoff } from '../retry/backoff.js'

/** The state of awaited work: its value, an error, or nothing yet. */
export type Settled = { readonly value: unknown } | { readonly error: Error } | undefined

/** What a model provides so that callers can wait for its ends. */
export interface ResultSource<Found = unknown> {
  /** Ends of this model are notified under it (`holdfast.wake_results`). */
  readonly model: Model
  /** One statement for all awaited work. Work that is not found is missing from the result. */
  find(keys: readonly string[]): Promise<ReadonlyMap<string, Found>>
  settle(found: Found): Settled
  unknown(key: string): HoldfastError<'HF_NOT_FOUND'>
  /** Why it has not ended: its status, what it waits for, and whether a live worker can continue it. */
  why(found: Found): Promise<{ readonly work: Work; readonly status: string; readonly why: string }>
}

/**
 * Awaiting results: one loop per model for all waiters of a program. A poll is one statement whatever the number of
 * waiters; the database notifies the loop when something of the model has ended and a caller waits. A database that
 * restarts meanwhile is waited for within the caller's time.
 */
export interface Results {
  /** Resolves with the result of the work that `key` names; rejects with its error, or with HF_RESULT_TIMEOUT. */
  wait<Found>(source: ResultSource<Found>, key: string, limitMs: number): Promise<unknown>
  close(): Promise<void>
}

interface Options {
  readonly logger: Logger
  /** Starts listening for notifications; called when a caller has waited for a while. */
  readonly listen: () => Listener
}

interface Waiter {
  readonly key: string
  resolve(value: unknown): void
  reject(error: Error): void
}

const SHORTEST_POLL = 10
const LONGEST_POLL = 250
/** While notifications arrive, polls come quickly for this long, and then only make up for lost notifications. */
const QUICK_FOR = 1_000
const POLL_LISTENING = 1_000
/** Short waits are over before a connection would be open. */
const LISTEN_AFTER = 500
/** How often the database is told that callers wait; see `result_wait` in sql/functions/kernel.sql. */
const SAY_SO_EVERY = 10_000
/** How long it may take to find out why a wait has timed out. */
const LAST_LOOK = 2_000
/** Notifications of a busy installation come every few milliseconds, most of them about work that this program does not wait for. */
const SHORTEST_AFTER_NOTIFICATION = 20

export function createResults(db: Executor, { logger, listen }: Options): Results {
  const loops = new Map<string, ReturnType<typeof createLoop>>()
  let listener: Listener | undefined
  let closed = false

  function listening(): Listener {
    listener ??= listen()
    return listener
  }

  function loopOf<Found>(source: ResultSource<Found>) {
    const loop = loops.get(source.model) ?? createLoop(db, source as ResultSource, { logger, listening })
    loops.set(source.model, loop)
    return loop
  }

  return {
    wait(source, key, limitMs) {
      if (closed) return Promise.reject(new HoldfastError('HF_STOPPED', { what: 'the installation' }))
      return loopOf(source).wait(key, limitMs)
    },
    async close() {
      closed = true
      for (const loop of loops.values()) loop.close(new HoldfastError('HF_STOPPED', { what: 'the installation' }))
      await listener?.close()
    },
  }
}

function createLoop(
  db: Executor,
  source: ResultSource,
  { logger, listening }: { readonly logger: Logger; readonly listening: () => Listener },
) {
  const waiting = new Map<string, Set<Waiter>>()
  const backoff = createBackoff({ base: SHORTEST_POLL, cap: LONGEST_POLL })
  let timer: NodeJS.Timeout | undefined
  let soon: NodeJS.Immediate | undefined
  let polling = false
  let again = false
  let listener: Listener | undefined
  let unsubscribe: (() => void) | undefined
  let polledAt = Number.NEGATIVE_INFINITY
  let saidSo = Number.NEGATIVE_INFINITY
  let quickSince = performance.now()

  /** A new waiter or a notification: the next polls come quickly. */
  function quicken(): void {
    quickSince = performance.now()
    backoff.reset()
  }

  function pollIn(milliseconds: number): void {
    clearTimeout(timer)
    if (waiting.size > 0) timer = setTimeout(() => void poll(), milliseconds)
  }

  /** Polls once for everything that is awaited in this turn of the event loop. */
  function wake(): void {
    if (polling) again = true
    else if (!soon) {
      soon = setImmediate(() => {
        soon = undefined
        clearTimeout(timer)
        if (waiting.size > 0) void poll()
      })
    }
  }

  /** Ends that follow within milliseconds share a notification: the polls after it come quickly for a while. */
  function notified(): void {
    quicken()
    const rest = SHORTEST_AFTER_NOTIFICATION - (performance.now() - polledAt)
    if (rest <= 0) wake()
    else if (!polling && !soon) pollIn(rest)
  }

  async function poll(): Promise<void> {
    if (polling) return
    polling = true
    polledAt = performance.now()
    const keys = [...waiting.keys()]
    try {
      await announceWaits()
      const found = await source.find(keys)
      for (const key of keys) settle(key, found.get(key))
    } catch (error) {
      // An outage is waited for; any other error rejects the waits of this poll.
      if (!isTransient(error)) for (const key of keys) end(key, { error: toError(error) })
      else logger.debug({ err: error, model: source.model }, 'could not poll for results; polling again')
    } finally {
      polling = false
      if (again) {
        again = false
        quicken()
        wake()
      } else pollIn(nextPoll())
    }
  }

  function nextPoll(): number {
    const isQuick = performance.now() - quickSince < QUICK_FOR
    return listener?.isListening && !isQuick ? POLL_LISTENING : backoff.next()
  }

  function settle(key: string, found: unknown): void {
    if (found === undefined) end(key, { error: source.unknown(key) })
    else {
      const settled = settledOf(found)
      if (settled) end(key, settled)
    }
  }

  /** A result that cannot be decoded rejects only the waits for this result. */
  function settledOf(found: unknown): Settled {
    try {
      return source.settle(found)
    } catch (error) {
      return { error: toError(error) }
    }
  }

  function end(key: string, settled: NonNullable<Settled>): void {
    for (const waiter of waiting.get(key) ?? []) {
      if ('error' in settled) waiter.reject(settled.error)
      else waiter.resolve(settled.value)
    }
  }

  /** The database notifies ends only while callers wait, so that other work does not pay for it. */
  async function announceWaits(): Promise<void> {
    if (!unsubscribe || performance.now() - saidSo < SAY_SO_EVERY) return
    saidSo = performance.now()
    await db.run(waitStatement, [source.model])
  }

  function subscribe(): void {
    if (unsubscribe) return
    listener = listening()
    unsubscribe = listener.subscribe(`results:${source.model}`, notified)
    saidSo = Number.NEGATIVE_INFINITY
    wake()
  }

  /** The time is over: it has ended in the last moment, or the error says why it has not. */
  async function lastLook(key: string, limitMs: number): Promise<NonNullable<Settled>> {
    const waited = formatDuration(limitMs)
    const look = async (): Promise<NonNullable<Settled>> => {
      const found = (await source.find([key])).get(key)
      if (found === undefined) return { error: source.unknown(key) }
      const settled = settledOf(found)
      if (settled) return settled
      const { work, status, why } = await source.why(found)
      return { error: new HoldfastError('HF_RESULT_TIMEOUT', { ...work, waited, status, why }) }
    }
    try {
      return await Promise.race([look(), tooLate(LAST_LOOK)])
    } catch (error) {
      const why = `The database does not respond: ${toError(error).message}`
      const details = { ...source.unknown(key).details, waited, status: 'in an unknown status', why }
      return { error: new HoldfastError('HF_RESULT_TIMEOUT', details, { cause: error }) }
    }
  }

  return {
    wait(key: string, limitMs: number): Promise<unknown> {
      return new Promise((resolve, reject) => {
        const waiter: Waiter = { key, resolve: over(resolve), reject: over(reject) }
        const waiters = waiting.get(key) ?? new Set()
        waiting.set(key, waiters.add(waiter))
        const limit = setTimeout(
          () => {
            leave()
            void lastLook(key, limitMs).then((last) => ('error' in last ? reject(last.error) : resolve(last.value)))
          },
          Math.min(limitMs, LONGEST_TIMER_MS),
        )
        const listens = setTimeout(subscribe, LISTEN_AFTER)

        function over<Value>(then: (value: Value) => void): (value: Value) => void {
          return (value) => {
            leave()
            then(value)
          }
        }
        function leave(): void {
          clearTimeout(limit)
          clearTimeout(listens)
          waiters.delete(waiter)
          if (waiters.size === 0 && waiting.get(key) === waiters) waiting.delete(key)
        }
        quicken()
        wake()
      })
    },
    close(reason: Error): void {
      for (const key of waiting.keys()) end(key, { error: reason })
      clearTimeout(timer)
      clearImmediate(soon)
      unsubscribe?.()
    },
  }
}

async function tooLate(milliseconds: number): Promise<never> {
  await sleep(milliseconds, undefined, { ref: false })
  throw new Error(`no answer within ${formatDuration(milliseconds)}`)
}

const toError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)))

const waitStatement = { name: 'results.wait', text: 'select holdfast.await_results($1)' }
