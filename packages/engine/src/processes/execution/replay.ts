// Replays the recorded history: feeds each record to user code in its order. `executor.ts` calls it once, before it
// drives the process forward. A record that the code does not reach is a mismatch, and a record that cannot be read is
// `ReplayFailed`; neither may change anything. What a record does here must equal what `drive.ts` did when it was
// written.

import { callId, type HistoryRecord } from '../history.js'
import { readHistory } from '../queries/read-record.js'
import type { CallSpec, WaitingSpec } from './call-spec.js'
import type { Call } from './calls.js'
import { decideFailure, type FinalDecision, trouble } from './decisions.js'
import type { Execution } from './execution.js'
import { Mismatch, replaying } from './mismatch.js'
import { decideTimeout, valueAfterTimeout } from './waiting.js'

/**
 * Feeds the recorded events to user code, one at a time and in their order, and lets it run until it waits after each.
 * Code that depends on which call finished first takes the same path as it did then.
 */
export async function replay(execution: Execution): Promise<void> {
  const { item, parts } = execution
  await replaying(() => replayPage(execution, item.history))
  // Reading is no replay: a database that is down is not the fault of the record.
  for await (const page of readHistory(parts.db, item)) await replaying(() => replayPage(execution, page))
}

async function replayPage(execution: Execution, records: readonly HistoryRecord[]): Promise<void> {
  const { journal, state } = execution
  for (const record of records) {
    if (record.seen !== null) {
      state.applyUpTo(record.seen)
      journal.seenOnRecord = record.seen
    }
    await absorb(execution, record)
    journal.seq = record.seq
    journal.at = Math.max(journal.at, record.at)
  }
}

async function absorb(execution: Execution, record: HistoryRecord): Promise<void> {
  switch (record.kind) {
    case 'RETRY':
      return retryFailed(execution)
    case 'RESUME':
      for (const call of execution.calls.with('retrying')) call.nextAt = record.at
      for (const undoing of execution.undone.values()) undoing.nextAt = record.at
      return
    case 'RESOLVE':
      return resolve(execution, record)
    case 'UNWIND':
      return turn(execution, record)
    case 'COMPENSATION':
      return absorbCompensation(execution, record)
    default:
      return absorbCall(execution, execution.calls.recorded(record.kind, record.name, record.occurrence), record)
  }
}

async function absorbCall(execution: Execution, call: Call, record: HistoryRecord): Promise<void> {
  if (call.progress === 'settled') return absorbFound(execution, call, record)
  call.lastSeq = record.seq
  call.nextAt = record.nextAt ?? undefined
  const { spec } = call
  switch (record.status) {
    case 'STARTED':
      if (record.detail?.recovered) call.interrupted()
      else if (isWaitingSpec(spec)) {
        call.armed = true
        if ('begin' in spec) call.started()
        call.progress = 'waiting'
      } else {
        call.begun = true
      }
      return
    case 'WAITING_RETRY':
      call.postpone(record.detail?.outcome)
      call.attempts = record.attempt ?? call.attempts
      return
    case 'FAILED':
      return absorbFailure(execution, call, record)
    case 'COMPLETED': {
      const value = recordedValue(execution, call, record)
      return record.detail?.timedOut
        ? execution.settle(call, { value }, record.at)
        : execution.complete(call, value, record.at)
    }
  }
}

/** What `inquire` returned about a call, for its compensation; user code had caught its failure before. */
async function absorbFound(execution: Execution, call: Call, record: HistoryRecord): Promise<void> {
  if (!execution.unwinding) throw new Mismatch(`a second end of \`${call.id}\``, 'that it has ended')
  if (record.status === 'COMPLETED') return execution.complete(call, recordedValue(execution, call, record), record.at)
  call.attempted(record.detail?.outcome)
}

async function absorbFailure(execution: Execution, call: Call, { at, attempt, detail }: HistoryRecord): Promise<void> {
  call.attempts = attempt ?? call.attempts
  call.attempted(detail?.outcome)
  // A command or child whose wait timed out continues.
  if (!detail?.timedOut) call.underWay = false
  const error = detail?.error
  if (!error) throw new Mismatch(`a failure of \`${call.id}\``, 'no error in its record')
  if (detail.thrown) return execution.settle(call, { failed: error }, at)
  call.progress = 'failed'
  if (!detail.afterEnd) execution.failCall(call, decisionOfRecord(call.spec, detail.timedOut === true, error))
}

function decisionOfRecord(
  spec: CallSpec,
  timedOut: boolean,
  error: Parameters<typeof decideFailure>[0],
): FinalDecision {
  if (timedOut && 'onTimeout' in spec) return decideTimeout(spec.onTimeout, error)
  return error.code === 'OUTCOME_UNKNOWN' ? trouble('OUTCOME_UNKNOWN', error) : decideFailure(error)
}

function recordedValue(execution: Execution, call: Call, record: HistoryRecord): unknown {
  const { spec } = call
  const { detail } = record
  if (isWaitingSpec(spec)) {
    if (detail?.timedOut || spec.kind === 'SLEEP') return valueAfterTimeout(spec)
    if (spec.kind === 'WAIT') return true
    const name = spec.kind === 'EVENT' ? spec.response : spec.kind === 'COMMAND' ? '@command' : '@child'
    const data = execution.state.take(name, detail?.response ?? 0)
    if (spec.kind === 'EVENT') return data
  }
  return detail?.nothing ? undefined : execution.parts.codec.decode({ json: record.result, notes: record.notes })
}

/** An operator's retry: failed calls begin again with no attempts used; a wait that timed out starts again. */
function retryFailed(execution: Execution): void {
  for (const [id, undoing] of execution.undone) if (undoing.progress !== 'done') execution.undone.delete(id)
  // Once the compensation has begun, nothing else is ever called again.
  if (execution.unwinding) return
  execution.finalDecision = undefined
  for (const call of execution.calls.with('failed')) {
    call.progress = isWaitingSpec(call.spec) && !('begin' in call.spec) ? 'waiting' : 'new'
    call.attempts = 0
    call.armed = false
    call.nextAt = undefined
    call.failedAs = undefined
  }
}

/** A person has said what became of a failed call, or has skipped it. What else has failed stays as it is. */
async function resolve(execution: Execution, record: HistoryRecord): Promise<void> {
  const { name, occurrence, at, seq, detail } = record
  const call = execution.calls.with('failed').find((open) => open.name === name && open.occurrence === occurrence)
  if (!call) throw new Mismatch(`what a person said of \`${callId(name, occurrence)}\``, 'no such call that has failed')
  call.failedAs = undefined
  call.lastSeq = seq
  const others = execution.calls.with('failed')
  execution.finalDecision = others.find(({ failedAs }) => failedAs !== undefined)?.failedAs
  if (detail?.resolved === 'done' || detail?.resolved === 'skipped')
    return execution.complete(call, recordedValue(execution, call, record), at)
  call.attempted('notDone')
  // What `execute` has returned stands: a call that it did not wait for is not begun again.
  if (execution.ending) return
  call.progress = 'new'
  call.attempts = 0
  call.nextAt = undefined
}

function turn(execution: Execution, { detail }: HistoryRecord): void {
  execution.unwinding = {
    to: 'UNWIND',
    end: detail?.end ?? 'COMPENSATED',
    reason: detail?.reason ?? 'FAILURE',
    error: detail?.error,
  }
  execution.finalDecision = execution.unwinding
}

function absorbCompensation(execution: Execution, record: HistoryRecord): void {
  const { name, occurrence, status, attempt, nextAt, detail } = record
  execution.undone.set(callId(name, occurrence), {
    attempts: attempt ?? 0,
    nextAt: nextAt ?? undefined,
    progress: status === 'COMPLETED' ? 'done' : status === 'FAILED' ? 'failed' : 'retrying',
    problem: detail?.error && `${detail.error.code}: ${detail.error.message}`,
  })
}

const isWaitingSpec = (spec: CallSpec): spec is WaitingSpec =>
  spec.kind === 'WAIT' || spec.kind === 'EVENT' || spec.kind === 'SLEEP' || 'begin' in spec
