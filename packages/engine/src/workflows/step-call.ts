import { formatDuration } from '../kernel/duration/duration.js'
import { TransientError } from '../kernel/failure/failure-errors.js'
import type { Lease } from '../kernel/work/leases.js'
import type { ClaimedStep } from './queries/claim-steps.js'

/** Nobody knows what the call did: its handler was told to stop, and neither ended nor failed. */
export const ABANDONED = Symbol('abandoned')

/** One call of a handler, while it runs: its signal, its end, and what may end it before its time. */
export class StepCall {
  readonly item: ClaimedStep
  readonly lease: Lease<ClaimedStep>
  /** How long the handler is waited for when it was told to stop. */
  readonly #graceMs: number
  /** What becomes of it is decided; whatever its handler still does comes too late. */
  ended = false
  /** Completed by its own transaction. */
  finished = false
  #controller: AbortController | undefined
  #reason: Error | undefined
  #timers: NodeJS.Timeout[] = []
  #settle: ((end: typeof ABANDONED) => void) | undefined
  #fail: ((error: Error) => void) | undefined

  constructor(item: ClaimedStep, lease: Lease<ClaimedStep>, graceMs: number) {
    this.item = item
    this.lease = lease
    this.#graceMs = graceMs
  }

  /** The handler's own end, or what comes before it: its time is up, or it does not heed its signal. */
  async outcome(run: () => unknown, timeoutMs: number | undefined): Promise<unknown> {
    const before = new Promise<typeof ABANDONED>((resolve, reject) => {
      this.#settle = resolve
      this.#fail = reject
    })
    before.catch(() => undefined)
    if (timeoutMs !== undefined) this.#timers.push(setTimeout(() => this.#timeUp(timeoutMs), timeoutMs))
    try {
      return await Promise.race([run(), before])
    } finally {
      for (const timer of this.#timers) clearTimeout(timer)
    }
  }

  #timeUp(timeoutMs: number): void {
    const error = new TransientError(`the handler took longer than ${formatDuration(timeoutMs)}`, { code: 'TIMEOUT' })
    // First: a handler that ends upon its signal must not overtake the verdict.
    this.#fail?.(error)
    this.#fire(error)
  }

  /** The instance does not want it any more. It may end in its own way for a while. */
  abort(reason: Error): void {
    if (this.#reason || this.ended) return
    this.#fire(reason)
    this.#timers.push(setTimeout(() => this.#settle?.(ABANDONED), this.#graceMs).unref())
  }

  #fire(reason: Error): void {
    this.#reason ??= reason
    this.#controller?.abort(reason)
  }

  // Made on first use: most handlers never look at it.
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#reason) this.#controller.abort(this.#reason)
    }
    return AbortSignal.any([this.lease.signal, this.#controller.signal])
  }
}
