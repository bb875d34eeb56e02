import { HoldfastError } from '../kernel/errors.js'
import { callLimited, type LazySignal, type Lease } from '../kernel/model/index.js'
import type { ClaimedStep } from './queries/claim-steps.js'

/** The outcome of the call is unknown: its handler was told to stop, and neither returned nor threw. */
export const ABANDONED = Symbol('abandoned')

/** One call of a handler, while it runs: its signal, its end, and what may end it before its time. */
export class StepCall {
  readonly item: ClaimedStep
  readonly lease: Lease<ClaimedStep>
  /** How long the handler is awaited after it was told to stop. */
  readonly #graceMs: number
  /** The end of the attempt is decided; what its handler still does has no effect. */
  ended = false
  /** Completed by its own transaction. */
  finished = false
  /** The handler was called: only then may there be an effect. */
  began = false
  /** The handler has neither returned nor thrown. */
  running = false
  #calledOff: AbortController | undefined
  #reason: Error | undefined
  #grace: NodeJS.Timeout | undefined
  #abandon: (() => void) | undefined

  constructor(item: ClaimedStep, lease: Lease<ClaimedStep>, graceMs: number) {
    this.item = item
    this.lease = lease
    this.#graceMs = graceMs
  }

  /** The code's own end, or what comes before it: its time limit, or an abort that it ignores. */
  async outcome<T>(code: (over: LazySignal) => Promise<T>, limitMs: number): Promise<T | typeof ABANDONED> {
    const abandoned = new Promise<typeof ABANDONED>((resolve) => {
      this.#abandon = () => resolve(ABANDONED)
    })
    const limits = { limitMs, graceMs: this.#graceMs, around: () => [this.lease.signal, this.#controller().signal] }
    try {
      return await Promise.race([callLimited(limits, (over) => this.#watch(code, over)), abandoned])
    } finally {
      clearTimeout(this.#grace)
    }
  }

  async #watch<T>(code: (over: LazySignal) => Promise<T>, over: LazySignal): Promise<T> {
    this.running = true
    try {
      return await code(over)
    } finally {
      this.running = false
    }
  }

  /** The instance no longer needs it. The handler has a while to end by itself. */
  abort(reason: Error): void {
    if (this.#reason || this.ended) return
    this.#reason = reason
    this.#calledOff?.abort(reason)
    this.#grace = setTimeout(() => this.#abandon?.(), this.#graceMs).unref()
  }

  /** Its worker was stopped in order, and did not wait for it any longer. */
  get interrupted(): boolean {
    if (!this.lease.aborted) return false
    const { reason } = this.lease.signal
    return reason instanceof HoldfastError && reason.code === 'HF_STOPPED'
  }

  #controller(): AbortController {
    this.#calledOff ??= new AbortController()
    if (this.#reason) this.#calledOff.abort(this.#reason)
    return this.#calledOff
  }
}
