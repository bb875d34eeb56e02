import { formatDuration } from '../../kernel/duration/duration.js'
import { TransientError } from '../../kernel/failure/failure-errors.js'

/**
 * Calls user code with a signal and, unless it has all the time in the world, a time limit. Code that ignores the signal
 * goes on, and nobody listens to it any more (P-02).
 */
export function callLimited<Result>(
  limitMs: number | undefined,
  around: () => readonly AbortSignal[],
  code: (over: LazySignal) => Result | Promise<Result>,
): Promise<Result> {
  const over = new LazySignal(around)
  // In a function of its own, so that code that throws before it is asynchronous is no different.
  const running = (async () => code(over))()
  if (limitMs === undefined) return running
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      const error = new TransientError(`it took longer than ${formatDuration(limitMs)}`, { code: 'TIMEOUT' })
      // First: code that ends upon its signal must not overtake the verdict.
      reject(error)
      over.abort(error)
    }, limitMs)
    running.then(resolve, reject).finally(() => clearTimeout(timer))
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
