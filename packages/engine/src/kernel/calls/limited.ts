import { formatDuration } from '../duration/duration.js'
import { TransientError } from '../failure/failure-errors.js'

export interface CallLimits {
  /** Default: no limit. */
  readonly limitMs: number | undefined
  /** How long code that was told to stop is waited for, before the engine goes on without knowing what it still does. */
  readonly graceMs: number
  /** Signals that end the call besides its time limit: a lost lease, a cancel. */
  readonly around: () => readonly AbortSignal[]
}

/**
 * Calls user code with a signal and, if there is one, a time limit. A call whose time is up fails with `TIMEOUT` whatever it
 * returns afterwards, but the failure is reported only when the code has ended or the grace is over: the next attempt and the
 * compensation must not run beside the call that they follow.
 */
export function callLimited<Result>(
  { limitMs, graceMs, around }: CallLimits,
  code: (over: LazySignal) => Result | Promise<Result>,
): Promise<Result> {
  const over = new LazySignal(around)
  // In a function of its own, so that code that throws before it is asynchronous is no different.
  const running = (async () => code(over))()
  if (limitMs === undefined) return running
  return new Promise((resolve, reject) => {
    let late: Error | undefined
    let grace: NodeJS.Timeout | undefined
    const timer = setTimeout(() => {
      late = new TransientError(`it took longer than ${formatDuration(limitMs)}`, { code: 'TIMEOUT' })
      grace = setTimeout(reject, graceMs, late)
      over.abort(late)
    }, limitMs)
    running
      .then(
        (value) => (late ? reject(late) : resolve(value)),
        (error: unknown) => reject(late ?? error),
      )
      .finally(() => {
        clearTimeout(timer)
        clearTimeout(grace)
      })
  })
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
