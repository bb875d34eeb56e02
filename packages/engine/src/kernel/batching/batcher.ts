import { HoldfastError } from '../errors.js'
import { type Logger, silentLogger } from '../logger.js'
import { type Metrics, noMetrics } from '../metrics/metrics.js'
import { createFlusher, type Flush, type Pending } from './flusher.js'
import { roughSize } from './rough-size.js'

export interface BatcherOptions<Write, Result> {
  /** The model and what is written: `commands.finish`. Goes into logs and metrics. */
  readonly name: string
  /** One statement for many writes; returns their outcomes in order. Must be harmless when repeated (each write carries a token). */
  readonly flush: Flush<Write, Result>
  /**
   * What a write locks. Two writes of one key never share a flush and keep their order; flushes are sorted by it, so
   * that every statement locks in the same order.
   */
  readonly key: (write: Write) => string
  /** How long a write waits for an unreachable database before its caller gets an error. Default: for as long as it takes. */
  readonly giveUpAfter?: number
  readonly maxBatch?: number
  /** About how many bytes a flush may have. A single larger write goes alone. Default: 8 MB. */
  readonly maxBytes?: number
  /** About how many bytes a write has. Default: the length of its texts. */
  readonly size?: (write: Write) => number
  /** A second flush starts beside the first only when more writes wait (100): below that, one larger flush is cheaper. */
  readonly secondLaneFrom?: number
  readonly logger?: Logger
  readonly metrics?: Metrics
}

export interface Batcher<Write, Result> {
  /** Resolves when the write is committed; rejects with this write's own error. */
  write(write: Write): Promise<Result>
  /** Writes accepted and not yet settled. */
  readonly pending: number
  /** Refuses new writes and resolves when the accepted ones are settled; after `timeout` the rest are rejected. */
  close(timeout?: number): Promise<void>
}

const LANES = 2

/**
 * Group commit. Writes that come while a flush is in flight go out together in the next one; when idle, a write
 * goes out at once (all that were made in the same turn of the event loop share the statement).
 *
 * @example
 * const finishes = createBatcher({ name: 'commands.finish', key: (w) => w.id, flush: (writes) => finishCommands(db, writes) })
 * await finishes.write({ id, epoch, token: newId(), result })
 */
export function createBatcher<Write, Result>(options: BatcherOptions<Write, Result>): Batcher<Write, Result> {
  const { name, key, giveUpAfter, maxBatch = 1000, secondLaneFrom = 100 } = options
  const { maxBytes = 8 * 1024 * 1024, size = roughSize } = options
  const { logger = silentLogger, metrics = noMetrics } = options
  const ready: Pending<Write, Result>[] = []
  /** Keys that are queued, in flight or held, each with the later writes that wait behind it, if there are any. */
  const behind = new Map<string, Pending<Write, Result>[] | undefined>()
  const closing = new AbortController()
  let pending = 0
  let lanes = 0
  let scheduled = false
  let closed = false
  let onIdle: (() => void) | undefined

  const flusher = createFlusher<Write, Result>({
    name,
    flush: options.flush,
    ...(giveUpAfter === undefined ? {} : { giveUpAfter }),
    signal: closing.signal,
    logger,
    metrics,
    settled,
  })

  function settled(entry: Pending<Write, Result>): void {
    pending -= 1
    const next = behind.get(entry.key)?.shift()
    if (next) {
      ready.push(next)
      schedule()
    } else {
      behind.delete(entry.key)
    }
    if (pending === 0) onIdle?.()
  }

  function schedule(): void {
    if (scheduled || ready.length === 0) return
    scheduled = true
    setImmediate(() => {
      scheduled = false
      startLanes()
    })
  }

  function startLanes(): void {
    const wanted = ready.length > secondLaneFrom ? LANES : 1
    for (let free = wanted - lanes; free > 0 && ready.length > 0; free -= 1) {
      startLane(ready.splice(0, fitting(Math.min(Math.ceil(ready.length / free), maxBatch))))
    }
  }

  /** How many of the first writes go out together: a flush is limited in bytes too. */
  function fitting(most: number): number {
    let bytes = 0
    for (let count = 0; count < most; count++) {
      bytes += ready[count]?.size ?? 0
      if (bytes > maxBytes) return Math.max(1, count)
    }
    return most
  }

  function startLane(batch: Pending<Write, Result>[]): void {
    batch.sort(byKey)
    lanes += 1
    void flusher.flushAll(batch).finally(() => {
      lanes -= 1
      schedule()
    })
  }

  function write(write: Write): Promise<Result> {
    if (closed) return Promise.reject(new HoldfastError('HF_STOPPED', { what: name }))
    return new Promise((resolve, reject) => {
      const entry = { write, key: key(write), size: size(write), since: performance.now(), resolve, reject }
      pending += 1
      if (behind.has(entry.key)) {
        behind.set(entry.key, [...(behind.get(entry.key) ?? []), entry])
        return
      }
      behind.set(entry.key, undefined)
      ready.push(entry)
      schedule()
    })
  }

  async function close(timeout?: number): Promise<void> {
    closed = true
    if (pending === 0) return
    const timer = timeout === undefined ? undefined : setTimeout(() => closing.abort(), timeout)
    await new Promise<void>((resolve) => {
      onIdle = resolve
    })
    clearTimeout(timer)
  }

  return {
    write,
    close,
    get pending() {
      return pending
    },
  }
}

function byKey(a: { key: string }, b: { key: string }): number {
  return a.key < b.key ? -1 : a.key > b.key ? 1 : 0
}
