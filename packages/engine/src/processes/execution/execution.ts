// The data of one running execution: its calls, its state, its journal, and how `execute` ended. `executor.ts` creates
// it; all other files of this folder work on it. Events take effect one at a time, in the order of their sequence
// numbers. Live execution and replay must go through the same methods, or a replay would take another path.

import { roundTrip } from '../../kernel/codec/codec.js'
import { HoldfastError } from '../../kernel/errors.js'
import { classifyFailure, type Failure } from '../../kernel/failure/classify.js'
import type { Lease } from '../../kernel/work/leases.js'
import { createSignal } from '../../kernel/work/signal.js'
import type { RecordedFailure } from '../history.js'
import type { ClaimedProcess } from '../queries/claim-processes.js'
import type { Incoming } from '../queries/write-processes.js'
import { processOf } from '../refused.js'
import { StepFailed } from '../step-failed.js'
import type { Arrival } from './attempted.js'
import { type Call, Calls } from './calls.js'
import { drain, executionClock } from './clock.js'
import { decideFailure, type FinalDecision, toRecorded } from './decisions.js'
import { Journal } from './journal.js'
import type { ExecutionParts } from './parts.js'
import { ProcessState } from './process-state.js'

/** How `execute` ended. */
type Ending = { readonly value: unknown } | { readonly error: unknown }

/**
 * One execution of a process, from a claim to a suspension or an end. Everything that happens to it is an event: events take effect one
 * at a time, in the order of their sequence numbers, and after each the user's code runs until it has nothing more to
 * do. A replay feeds the recorded events to the same code, which takes the same path.
 */
export class Execution {
  readonly item: ClaimedProcess
  readonly lease: Lease<ClaimedProcess>
  readonly parts: ExecutionParts
  readonly calls = new Calls()
  readonly state: ProcessState
  readonly journal: Journal
  readonly now: () => number
  /** Attempts that have ended and not taken effect yet, in that order. */
  readonly arrivals: Arrival[] = []
  readonly wakeUp = createSignal()
  /** How often each compensation has failed since it began, or since an operator's retry; what is done or given up. */
  readonly undone = new Map<
    string,
    {
      attempts: number
      nextAt: number | undefined
      progress: 'retrying' | 'done' | 'failed'
      /** What its last attempt failed with. */
      problem: string | undefined
    }
  >()
  #cancelling: AbortController | undefined
  #cancellingCalls: AbortController | undefined
  #callsAreCancelled = false
  /** Calls whose own code runs, with what lets each of them fail. */
  readonly inside = new Map<Call, (error: Error) => void>()
  ending: Ending | undefined
  /** What `ctx.now()` returns. Not the time of the last record: user code may run while a call that it does not await is recorded. */
  time: number
  finalDecision: FinalDecision | undefined
  /** The beginning of the compensation is on record. */
  unwinding: Extract<FinalDecision, { to: 'UNWIND' }> | undefined
  continuation: { readonly state: unknown; readonly keepEffects: boolean } | undefined
  cancel: 'PLAIN' | 'COMPENSATE' | null
  /** The execution is over: calls on its context never settle. */
  released = false
  running = 0
  /** Calls of user code were begun here. */
  hasBegun = false
  /** Why the execution must be dropped: the lease is lost, or the database refuses its writes. */
  lost: Error | undefined

  constructor(item: ClaimedProcess, lease: Lease<ClaimedProcess>, parts: ExecutionParts) {
    this.item = item
    this.lease = lease
    this.parts = parts
    this.now = executionClock(item.now)
    this.cancel = item.cancel
    this.time = item.startAt
    this.state = new ProcessState({
      definition: parts.definition,
      codec: parts.codec,
      initial: parts.codec.decode({ json: item.state, notes: item.stateNotes }),
      seen: item.stateResponses,
      unmet: item.stateUnmet ?? [],
      events: item.stateEvents ?? [],
      responses: item.responses,
    })
    const { id, epoch, generation } = item
    this.journal = new Journal(
      { id, epoch, generation, by: { item, now: this.now }, state: this.state, now: this.now, writes: parts.writes },
      item.startAt,
    )
  }

  /** Calls `execute` for the first time; it runs until its first calls. */
  async begin(context: Parameters<ExecutionParts['definition']['execute']>[0]): Promise<void> {
    this.state.guard.open = true
    try {
      // Called in a function of its own, so that code that throws before it is asynchronous is no different.
      const outcome = (async () => this.parts.definition.execute(context, this.state.shown))()
      outcome.then(
        (value) => this.end({ value }),
        (error: unknown) => this.end({ error }),
      )
      await drain()
    } finally {
      this.state.guard.open = false
    }
  }

  private end(ending: Ending): void {
    this.ending ??= ending
    this.wakeUp.fire()
  }

  /** A call's record takes effect in user code, which then runs until it waits again. `ctx.now()` is the time of that record. */
  async settle(
    call: Call,
    outcome: { readonly value: unknown } | { readonly failed: RecordedFailure },
    at: number,
  ): Promise<void> {
    this.calls.settled(call)
    this.time = at
    this.state.guard.open = true
    if ('failed' in outcome) {
      // One that never began has done nothing.
      const done = call.outcome ?? 'refused'
      call.reject(new StepFailed(call.id, outcome.failed, done === 'refused' ? done : 'unknown'))
    }
    if ('value' in outcome) call.resolve(outcome.value)
    await drain()
    this.state.guard.open = false
  }

  /** It ended well. What its compensation will get is a copy: user code may do with its own what it likes. */
  async complete(call: Call, value: unknown, at: number): Promise<void> {
    call.underWay = false
    call.attempted('completed')
    if ('compensate' in call.spec && call.spec.compensate) call.result = roundTrip(this.parts.codec, value)
    // User code that has caught its failure does not see this; only the compensation does.
    if (call.progress !== 'settled') await this.settle(call, { value }, at)
  }

  receive({ cancel, responses }: Incoming): void {
    this.state.receive(responses)
    if (cancel && !this.cancel) {
      this.cancel = cancel
      this.#cancelling?.abort(this.#cancelled())
    }
    this.wakeUp.fire()
  }

  /** Fires when the process is cancelled. Made on first use: most executions are never asked for it. */
  get cancelSignal(): AbortSignal {
    if (!this.#cancelling) {
      this.#cancelling = new AbortController()
      if (this.cancel) this.#cancelling.abort(this.#cancelled())
    }
    return this.#cancelling.signal
  }

  /** Aborts all running calls: the process is about to be compensated, and waits for them first. */
  cancelCalls(): void {
    this.#callsAreCancelled = true
    this.#cancellingCalls?.abort(this.#cancelled())
  }

  get cancelCallsSignal(): AbortSignal {
    if (!this.#cancellingCalls) {
      this.#cancellingCalls = new AbortController()
      if (this.#callsAreCancelled) this.#cancellingCalls.abort(this.#cancelled())
    }
    return this.#cancellingCalls.signal
  }

  #cancelled(): HoldfastError<'HF_CANCELLED'> {
    return new HoldfastError('HF_CANCELLED', processOf(this.parts.definition.name, this.item.id))
  }

  classify(error: unknown): Failure {
    const classify = this.parts.definition.classifyError
    return classifyFailure(error, { unknown: 'permanent', ...(classify ? { classify } : {}) })
  }

  /** A call has failed, and no user code gets that: what it makes of the process. */
  failCall(call: Call, finalDecision: FinalDecision): void {
    call.progress = 'failed'
    call.failedAs = finalDecision
    this.finalDecision ??= finalDecision
  }

  /** What an error of `execute` itself, or of a reducer or condition, means. */
  failWith(error: unknown): void {
    this.finalDecision ??= decideFailure(toRecorded(this.classify(error)))
  }

  /**
   * The key under which the outside world knows a call: the same on every attempt. `<id>[#<generation>]/<name>[#<occurrence>]`,
   * and `/compensate` after it for the compensation. Names contain neither `#` nor `/`, so no two calls share a key.
   */
  keyOf(call: Call): string {
    const { id, generation } = this.item
    return generation === 1 ? `${id}/${call.id}` : `${id}#${generation}/${call.id}`
  }
}
