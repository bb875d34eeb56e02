// The reducer of an execution: `apply(state, event)` returns the effect on user code. It is the only writer of the state,
// it is synchronous, and it does no I/O. Replay feeds it the recorded events; live execution puts an event on record and
// feeds it the same, so a call is in the same state whichever worker looks at it. `decide` is the only place that sets
// the final decision. What a record does here must never depend on anything that is not in the record or in the state.

import { roundTrip } from '../../kernel/codec/codec.js'
import type { CallOutcome } from '../../kernel/model/index.js'
import { callId, type HistoryRecord, type RecordDetail, type RecordedFailure } from '../history.js'
import type { EncodedResult } from './attempted.js'
import { isWaiting, type WaitingSpec } from './call-spec.js'
import type { Call, CallState } from './calls.js'
import { decideFailure, decideLate, type FinalDecision, trouble } from './decisions.js'
import { Mismatch } from './mismatch.js'
import type { Continuation, Ending, ExecutionState } from './state.js'

/** An event as it stands in the record, or is about to. */
export type RecordedEvent = Pick<HistoryRecord, 'seq' | 'at' | 'kind' | 'name' | 'occurrence' | 'status' | 'seen'> &
  Partial<Pick<HistoryRecord, 'attempt' | 'nextAt' | 'detail' | 'result' | 'notes'>>

/** What is not recorded: the next worker finds it again, or need not know. */
export type PassingEvent =
  /** An attempt begins. It came to nothing before it began. A command or child was started. */
  | { readonly kind: 'BEGIN' | 'WITHDRAW' | 'UNDER_WAY'; readonly call: CallState }
  | { readonly kind: 'RETURN'; readonly ending: Ending }
  | { readonly kind: 'CONTINUE'; readonly continuation: Continuation }
  | { readonly kind: 'CANCEL'; readonly cancel: 'PLAIN' | 'COMPENSATE' }
  | { readonly kind: 'DECIDE'; readonly decision: FinalDecision }

/** User code goes on with the result or the failure of a call; or nothing is to be done. */
export type Effect =
  | { readonly call: Call; readonly value: unknown }
  | { readonly call: Call; readonly failed: RecordedFailure }
  | 'none'

/**
 * Lets one event take effect.
 *
 * @param result the result of the call, where it is at hand; otherwise it is decoded from the record
 */
export function apply(state: ExecutionState, event: RecordedEvent | PassingEvent, result?: EncodedResult): Effect {
  switch (event.kind) {
    case 'BEGIN':
      event.call.progress = 'running'
      break
    case 'WITHDRAW':
      event.call.progress = event.call.attempts > 0 ? 'retrying' : 'new'
      break
    case 'UNDER_WAY':
      started(event.call)
      break
    case 'RETURN':
      state.ending ??= event.ending
      break
    case 'CONTINUE':
      state.continuation ??= event.continuation
      break
    case 'CANCEL':
      state.cancel ??= event.cancel
      break
    case 'DECIDE':
      decide(state, event.decision)
      break
    default:
      if (event.seen !== null) state.data.applyUpTo(event.seen)
      return applyRecorded(state, event, result)
  }
  return 'none'
}

function applyRecorded(state: ExecutionState, event: RecordedEvent, result?: EncodedResult): Effect {
  switch (event.kind) {
    case 'RETRY':
      retryFailed(state)
      break
    case 'RESUME':
      for (const call of state.calls.with('retrying')) call.nextAt = event.at
      for (const compensation of state.compensations.values()) compensation.nextAt = event.at
      break
    case 'RESOLVE':
      return resolve(state, event)
    case 'UNWIND':
      beginUnwinding(state, event)
      break
    case 'COMPENSATION':
      applyCompensation(state, event)
      break
    default:
      return applyToCall(state, state.calls.recorded(event.kind, event.name, event.occurrence), event, result)
  }
  return 'none'
}

/**
 * Sets the final decision; nothing else does. The first decision stands, except that a cancellation replaces it: one without
 * compensation also where compensations run, and none where the process ends anyway. Without a decision: an operator has
 * withdrawn what was decided, and what else has failed decides.
 */
function decide(state: ExecutionState, decision?: FinalDecision): void {
  if (decision && state.finalDecision && !replaces(decision, state)) return
  state.finalDecision = decision ?? state.unwinding ?? firstFailure(state)
}

function replaces(decision: FinalDecision, { finalDecision, unwinding }: ExecutionState): boolean {
  if (decision.to === 'TSQ' || decision.end !== 'CANCELLED' || finalDecision?.to === 'END') return false
  return decision.to === 'END' || !unwinding
}

const firstFailure = ({ calls }: ExecutionState): FinalDecision | undefined =>
  calls.with('failed').find(({ failedAs }) => failedAs !== undefined)?.failedAs

function applyToCall(state: ExecutionState, call: CallState, event: RecordedEvent, result?: EncodedResult): Effect {
  const { detail } = event
  if (call.progress === 'settled') return applyFound(state, call, event, result)
  call.lastSeq = event.seq
  call.nextAt = event.nextAt ?? undefined
  switch (event.status) {
    case 'STARTED':
      start(call, detail)
      break
    case 'WAITING_RETRY':
      call.attempts = event.attempt ?? call.attempts
      // A command or child may have been started; its end will come if it was.
      if (detail?.outcome === 'unknown') interrupted(call)
      else attempted(call, detail?.outcome)
      call.progress = 'retrying'
      break
    case 'FAILED':
      return fail(state, call, event)
    case 'COMPLETED':
      return complete(state, call, event, result)
  }
  return 'none'
}

/** What `inquire` returned about a call, for its compensation; user code had caught its failure before. */
function applyFound(state: ExecutionState, call: CallState, event: RecordedEvent, result?: EncodedResult): Effect {
  if (!state.unwinding) throw new Mismatch(`a second end of \`${call.id}\``, 'that it has ended')
  if (event.status === 'COMPLETED') keepResult(state, call, returned(state, call, event, result))
  else attempted(call, event.detail?.outcome)
  return 'none'
}

function start(call: CallState, detail: RecordDetail | null | undefined): void {
  if (detail?.recovered) interrupted(call)
  else if ('begin' in call.spec) {
    call.armed = true
    started(call)
  } else if (isWaiting(call.spec)) {
    call.armed = true
    call.progress = 'waiting'
  } else {
    attempted(call, detail?.outcome)
    call.begun = true
  }
}

function fail(state: ExecutionState, call: CallState, event: RecordedEvent): Effect {
  const { attempt, detail } = event
  const error = detail?.error
  if (!error) throw new Mismatch(`a failure of \`${call.id}\``, 'no error in its record')
  call.attempts = attempt ?? call.attempts
  take(state, call.spec, detail)
  // A command or child whose wait timed out continues.
  attempted(call, detail.outcome)
  if (detail.thrown) return settle(state, call, event, { failed: error })
  call.progress = 'failed'
  if (detail.afterEnd) return 'none'
  call.failedAs = decisionOn(call, detail, error)
  decide(state, call.failedAs)
  return 'none'
}

function decisionOn({ spec }: Call, { timedOut, outcome }: RecordDetail, error: RecordedFailure): FinalDecision {
  if (timedOut && 'onTimeout' in spec) return decideLate(spec.onTimeout, 'TIMEOUT', error)
  // Our own, of an at-most-once call. A failure of that code that user code throws says itself that nothing was done.
  const isUnanswered = error.code === 'OUTCOME_UNKNOWN' && error.kind === 'PERMANENT' && outcome === 'unknown'
  return isUnanswered ? trouble('OUTCOME_UNKNOWN', error) : decideFailure(error)
}

function complete(state: ExecutionState, call: CallState, event: RecordedEvent, result?: EncodedResult): Effect {
  const value = returned(state, call, event, result)
  if (!event.detail?.timedOut) keepResult(state, call, value)
  return settle(state, call, event, { value })
}

/** It ended well. What its compensation will get is a copy: user code may do with its own what it likes. */
function keepResult({ codec }: ExecutionState, call: CallState, value: unknown): void {
  attempted(call, 'completed')
  if ('compensate' in call.spec && call.spec.compensate) call.result = roundTrip(codec, value)
}

/** `ctx.now()` is the time of the record. */
function settle(
  state: ExecutionState,
  call: CallState,
  { at }: RecordedEvent,
  outcome: { readonly value: unknown } | { readonly failed: RecordedFailure },
): Effect {
  state.calls.settled(call)
  state.time = at
  return { call, ...outcome }
}

/** What user code gets from a call that has ended well. */
function returned(state: ExecutionState, { spec }: Call, event: RecordedEvent, known?: EncodedResult): unknown {
  const { detail } = event
  // What a wait returns that timed out: `wait` false, `event` and `sleep` nothing.
  if (spec.kind === 'WAIT') return !detail?.timedOut
  if (spec.kind === 'SLEEP' || detail?.timedOut) return undefined
  const taken = take(state, spec, detail)
  if (spec.kind === 'EVENT') return taken
  if (known) return known.value
  return detail?.nothing ? undefined : state.codec.decode({ json: event.result, notes: event.notes ?? null })
}

/** Takes the response that a wait has ended with, so that no other wait gets it. */
function take(state: ExecutionState, spec: Call['spec'], detail: RecordDetail | null | undefined): unknown {
  if (!isWaiting(spec) || detail?.response === undefined) return undefined
  return state.data.take(responseOf(spec), detail.response)
}

/** The name of the responses that such a call waits for. */
export function responseOf(spec: WaitingSpec): string {
  return spec.kind === 'EVENT' ? spec.response : spec.kind === 'COMMAND' ? '@command' : '@child'
}

/**
 * An attempt has ended; undefined: it never began. A later refusal does not make an attempt of unknown outcome refused: that
 * stays unknown until it is inquired about or settled by an operator.
 */
function attempted(call: CallState, outcome: CallOutcome | 'notDone' | undefined): void {
  if (outcome === undefined) return
  call.begun = false
  call.underWay = false
  if (outcome === 'notDone') call.ended = 'refused'
  else if (outcome !== 'refused' || call.ended === undefined) call.ended = outcome
}

/** An attempt may have begun in an execution that was interrupted, and its end will never be known. */
function interrupted(call: CallState): void {
  if ('begin' in call.spec) call.begun = true
  else attempted(call, 'unknown')
}

/** A command or child is at work; its end will come. */
function started(call: CallState): void {
  call.begun = false
  call.underWay = true
  call.progress = 'waiting'
}

/** An operator's retry: failed calls begin again with no attempts used; a wait that timed out starts again. */
function retryFailed(state: ExecutionState): void {
  for (const [id, { progress }] of state.compensations) if (progress !== 'done') state.compensations.delete(id)
  // Once the compensation has begun, nothing else is ever called again.
  if (state.unwinding) return
  for (const call of state.calls.with('failed')) {
    begin(call, isWaiting(call.spec) && !('begin' in call.spec) ? 'waiting' : 'new')
    call.armed = false
  }
  decide(state)
}

function begin(call: CallState, progress: 'new' | 'waiting'): void {
  call.progress = progress
  call.attempts = 0
  call.nextAt = undefined
  call.failedAs = undefined
}

/** A person has said what became of a failed call, or has skipped it. What else has failed stays as it is. */
function resolve(state: ExecutionState, event: RecordedEvent): Effect {
  const { name, occurrence, seq, detail } = event
  const call = state.calls.with('failed').find((open) => open.name === name && open.occurrence === occurrence)
  if (!call) throw new Mismatch(`what a person said of \`${callId(name, occurrence)}\``, 'no such call that has failed')
  call.failedAs = undefined
  call.lastSeq = seq
  decide(state)
  if (detail?.resolved === 'done') return complete(state, call, event)
  // The code goes on without a result. What is known of the effect of its attempts stays: that decides about its compensation.
  if (detail?.resolved === 'skipped') return settle(state, call, event, { value: returned(state, call, event) })
  attempted(call, 'notDone')
  // What `execute` has returned stands: a call that it did not wait for is not begun again.
  if (!state.ending) begin(call, 'new')
  return 'none'
}

/** From here on nothing but compensations. */
function beginUnwinding(state: ExecutionState, { detail }: RecordedEvent): void {
  const { end = 'COMPENSATED', reason = 'FAILURE', error } = detail ?? {}
  state.unwinding = { to: 'UNWIND', end, reason, error }
  decide(state)
}

function applyCompensation(state: ExecutionState, event: RecordedEvent): void {
  const { name, occurrence, status, attempt, nextAt, detail } = event
  state.compensations.set(callId(name, occurrence), {
    attempts: attempt ?? 0,
    nextAt: nextAt ?? undefined,
    progress: status === 'COMPLETED' ? 'done' : status === 'FAILED' ? 'failed' : 'retrying',
    problem: detail?.error && `${detail.error.code}: ${detail.error.message}`,
  })
}
