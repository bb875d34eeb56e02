import { formatDuration } from '../duration/duration.js'
import { TransientError } from '../failure/failure-errors.js'

export interface CallLimits {
  /** Default: no limit. */
  readonly limitMs: number | undefined
  /** How long code that was told to stop is awaited, before the engine continues without knowing what it still does. */
  readonly graceMs: number
  /** Signals that tell the code to stop besides its time limit: a lost lease, a cancel. */
  readonly around: () => readonly AbortSignal[]
  /** One of them that ends the call as its time limit does. Default: the code decides how it ends when it is told to stop. */
  readonly endedBy?: AbortSignal
  /** The error of a call that reaches its time limit. Default: a transient failure with the code `TIMEOUT`. */
  readonly late?: (limitMs: number) => Error
}

/**
 * Calls user code with a signal and, if there is one, a time limit. A call that reaches its limit fails with `TIMEOUT` whatever it
 * returns afterwards, but the failure is reported only when the code has ended or the grace is over: the next attempt and the
 * compensation must not run beside the call that they follow.
 */
export function callLimited<Result>(
  { limitMs, graceMs, around, endedBy, late = tookTooLong }: CallLimits,
  code: (over: LazySignal) => Result | Promise<Result>,
): Promise<Result> {
  const over = new LazySignal(around)
  // In a function of its own, so that code that throws before it is asynchronous is no different.
  const running = (async () => code(over))()
  if (limitMs === undefined) return running
  return new Promise((resolve, reject) => {
    let told: Error | undefined
    let grace: NodeJS.Timeout | undefined
    const tell = (reason: Error) => {
      if (told) return
      told = reason
      release()
      grace = setTimeout(reject, graceMs, reason)
      over.abort(reason)
    }
    const timer = setTimeout(() => tell(late(limitMs)), limitMs)
    const onEnd = () => tell(endedBy?.reason)
    // Also for code that never ends: what it listens to lives longer than the call.
    const release = () => {
      clearTimeout(timer)
      clearTimeout(grace)
      endedBy?.removeEventListener('abort', onEnd)
    }
    if (endedBy?.aborted) onEnd()
    else endedBy?.addEventListener('abort', onEnd)
    running.then(
      (value) => {
        release()
        if (told) reject(told)
        else resolve(value)
      },
      (error: unknown) => {
        release()
        reject(told ?? error)
      },
    )
  })
}

function tookTooLong(limitMs: number): Error {
  return new TransientError(`it took longer than ${formatDuration(limitMs)}`, { code: 'TIMEOUT' })
}

/** Made on first use: most steps never look at it, and a controller costs more than the rest of the call. */
export class LazySignal {
  #around: () => readonly AbortSignal[]
  #controller: AbortController | undefined
  #signal: AbortSignal | undefined
  #reason: Error | undefined

  /** Fires when one of those around it does. */
  constructor(around: () => readonly AbortSignal[]) {
    this.#around = around
  }

  get signal(): AbortSignal {
    if (!this.#signal) {
      this.#controller = new AbortController()
      if (this.#reason) this.#controller.abort(this.#reason)
      this.#signal = AbortSignal.any([this.#controller.signal, ...this.#around()])
    }
    return this.#signal
  }

  abort(reason: Error): void {
    this.#reason = reason
    this.#controller?.abort(reason)
  }
}
