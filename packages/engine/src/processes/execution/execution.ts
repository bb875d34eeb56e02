// One running execution: its state, its journal, and what ties it to this worker (lease, signals, calls that run). The
// state changes only through `apply`: `record` puts an event on record and applies it, so that a replay, which applies
// the recorded events, takes the same path. `executor.ts` creates it; all other files of this folder work on it.

import { HoldfastError } from '../../kernel/errors.js'
import { classifyFailure, type Failure } from '../../kernel/failure/classify.js'
import { createSignal, LazySignal, type Lease } from '../../kernel/model/index.js'
import type { ClaimedProcess } from '../queries/claim-processes.js'
import type { Incoming } from '../queries/write-processes.js'
import { processOf } from '../refused.js'
import { StepFailed } from '../step-failed.js'
import { apply, type Effect, type PassingEvent } from './apply.js'
import type { Arrival, EncodedResult } from './attempted.js'
import type { Call } from './calls.js'
import { drain, executionClock } from './clock.js'
import { decideFailure, type FinalDecision, toRecorded } from './decisions.js'
import { type CallRecord, Journal, type NewRecord, recordOf } from './journal.js'
import type { ExecutionParts } from './parts.js'
import { ProcessState } from './process-state.js'
import { type Ending, ExecutionState } from './state.js'

const ALONE = () => []

/**
 * One execution of a process, from a claim to a suspension or an end. Everything that happens to it is an event: events take effect one
 * at a time, in the order of their sequence numbers, and after each the user's code runs until it has nothing more to
 * do.
 */
export class Execution {
  readonly item: ClaimedProcess
  readonly lease: Lease<ClaimedProcess>
  readonly parts: ExecutionParts
  readonly state: Readonly<ExecutionState>
  readonly journal: Journal
  readonly now: () => number
  /** Attempts that have ended and not taken effect yet, in that order. */
  readonly arrivals: Arrival[] = []
  readonly wakeUp = createSignal()
  #cancelling = new LazySignal(ALONE)
  #cancellingCalls = new LazySignal(ALONE)
  /** Calls whose own code runs, with what lets each of them fail. */
  readonly inside = new Map<Call, (error: Error) => void>()
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
    const { definition, codec } = parts
    const data = new ProcessState({
      definition,
      codec,
      initial: codec.decode({ json: item.state, notes: item.stateNotes }),
      seen: item.stateResponses,
      unmet: item.stateUnmet ?? [],
      events: item.stateEvents ?? [],
      responses: item.responses,
    })
    this.state = new ExecutionState(data, codec, item)
    if (item.cancel) this.#cancelling.abort(this.#cancelled())
    const { id, epoch, generation } = item
    this.journal = new Journal(
      { id, epoch, generation, by: { item, now: this.now }, state: data, now: this.now, writes: parts.writes },
      item.startAt,
    )
  }

  /** Calls `execute` for the first time; it runs until its first calls. */
  begin(context: Parameters<ExecutionParts['definition']['execute']>[0]): Promise<void> {
    const end = (ending: Ending) => {
      this.apply({ kind: 'RETURN', ending })
      this.wakeUp.fire()
    }
    return this.#letRun(() => {
      // Called in a function of its own, so that code that throws before it is asynchronous is no different.
      const outcome = (async () => this.parts.definition.execute(context, this.state.data.shown))()
      outcome.then(
        (value) => end({ value }),
        (error: unknown) => end({ error }),
      )
    })
  }

  /** Calls into user code, which runs until it has nothing more to do: the moment when it may change its state and make calls. */
  async #letRun(call: () => void): Promise<void> {
    const { guard } = this.state.data
    guard.open = true
    call()
    await drain()
    guard.open = false
  }

  /** An event that is not recorded takes effect. */
  apply(event: PassingEvent): Effect {
    return apply(this.state, event)
  }

  /** Puts an event on record and lets it take effect, as a replay will. */
  record(record: NewRecord, result?: EncodedResult): Effect {
    return apply(this.state, this.journal.append(record), result)
  }

  /** The same for an event of a call. A result is given where the record keeps one. */
  recordCall(call: Call, fields: CallRecord, result?: EncodedResult): Effect {
    return this.record(recordOf(call, fields, result), result)
  }

  /** User code goes on with what it has awaited. */
  async perform(effect: Effect): Promise<void> {
    if (effect === 'none') return
    const { call } = effect
    // One that never began has done nothing.
    const done = call.outcome === undefined || call.outcome === 'refused' ? 'refused' : 'unknown'
    const outcome = 'value' in effect ? effect : { error: new StepFailed(call.id, effect.failed, done) }
    await this.#letRun(() => call.settle(outcome))
  }

  receive({ cancel, responses }: Incoming): void {
    this.state.data.receive(responses)
    if (cancel) {
      this.apply({ kind: 'CANCEL', cancel })
      this.#cancelling.abort(this.#cancelled())
    }
    this.wakeUp.fire()
  }

  /** Fires when the process is cancelled. */
  get cancelSignal(): AbortSignal {
    return this.#cancelling.signal
  }

  get cancelCallsSignal(): AbortSignal {
    return this.#cancellingCalls.signal
  }

  /** Aborts all running calls: the process is about to be compensated, and waits for them first. */
  cancelCalls(): void {
    this.#cancellingCalls.abort(this.#cancelled())
  }

  #cancelled(): HoldfastError<'HF_CANCELLED'> {
    return new HoldfastError('HF_CANCELLED', processOf(this.parts.definition.name, this.item.id))
  }

  classify(error: unknown): Failure {
    const classify = this.parts.definition.classifyError
    return classifyFailure(error, { unknown: 'permanent', ...(classify ? { classify } : {}) })
  }

  decide(decision: FinalDecision): void {
    this.apply({ kind: 'DECIDE', decision })
  }

  /** What an error of `execute` itself, or of what user code has left behind, means. */
  fail(error: unknown): void {
    this.decide(decideFailure(toRecorded(this.classify(error))))
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
