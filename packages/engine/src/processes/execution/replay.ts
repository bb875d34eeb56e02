import { callId, type HistoryRecord } from '../history.js'
import { readHistory } from '../queries/read-record.js'
import type { CallSpec, WaitingSpec } from './call-spec.js'
import type { Call } from './calls.js'
import { trouble, type Verdict, verdictOn } from './decisions.js'
import type { Execution } from './execution.js'
import { following, Mismatch } from './mismatch.js'
import { timeoutVerdict, valueAfterTimeout } from './waiting.js'

/**
 * Feeds the recorded events to user code, one at a time and in their order, and lets it come to rest after each (P-06).
 * Code that depends on who finished first takes the same path as it did then.
 */
export async function replay(execution: Execution): Promise<void> {
  const { item, parts } = execution
  await following(() => replayPage(execution, item.history))
  // Reading follows nothing: a database that is away is no fault of the record.
  for await (const page of readHistory(parts.db, item)) await following(() => replayPage(execution, page))
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
      call.putOff(record.detail?.outcome)
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

/** What `inquire` found out about a call, for its undoing; user code had caught its failure before. */
async function absorbFound(execution: Execution, call: Call, record: HistoryRecord): Promise<void> {
  if (!execution.unwinding) throw new Mismatch(`a second end of \`${call.id}\``, 'that it has ended')
  if (record.status === 'COMPLETED') return execution.complete(call, recordedValue(execution, call, record), record.at)
  call.attempted(record.detail?.outcome)
}

async function absorbFailure(execution: Execution, call: Call, { at, attempt, detail }: HistoryRecord): Promise<void> {
  call.attempts = attempt ?? call.attempts
  call.attempted(detail?.outcome)
  // A command or child whose time is over goes on.
  if (!detail?.timedOut) call.underWay = false
  const error = detail?.error
  if (!error) throw new Mismatch(`a failure of \`${call.id}\``, 'no error in its record')
  if (detail.thrown) return execution.settle(call, { failed: error }, at)
  call.progress = 'failed'
  if (!detail.afterEnd) execution.failCall(call, verdictOfRecord(call.spec, detail.timedOut === true, error))
}

function verdictOfRecord(spec: CallSpec, timedOut: boolean, error: Parameters<typeof verdictOn>[0]): Verdict {
  if (timedOut && 'onTimeout' in spec) return timeoutVerdict(spec.onTimeout, error)
  return error.code === 'OUTCOME_UNKNOWN' ? trouble('OUTCOME_UNKNOWN', error) : verdictOn(error)
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

/** An operator's retry: what failed begins anew, its attempts at nought; a wait that timed out is armed anew. */
function retryFailed(execution: Execution): void {
  for (const [id, undoing] of execution.undone) if (undoing.progress !== 'done') execution.undone.delete(id)
  // Once undoing has begun, nothing else is ever called again.
  if (execution.unwinding) return
  execution.verdict = undefined
  for (const call of execution.calls.with('failed')) {
    call.progress = isWaitingSpec(call.spec) && !('begin' in call.spec) ? 'waiting' : 'new'
    call.attempts = 0
    call.armed = false
    call.nextAt = undefined
    call.failedAs = undefined
  }
}

/** A person has said what became of a failed call (K-20), or has skipped it. What else has failed stays as it is. */
async function resolve(execution: Execution, record: HistoryRecord): Promise<void> {
  const { name, occurrence, at, seq, detail } = record
  const call = execution.calls.with('failed').find((open) => open.name === name && open.occurrence === occurrence)
  if (!call) throw new Mismatch(`what a person said of \`${callId(name, occurrence)}\``, 'no such call that has failed')
  call.failedAs = undefined
  call.lastSeq = seq
  const others = execution.calls.with('failed')
  execution.verdict = others.find(({ failedAs }) => failedAs !== undefined)?.failedAs
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
  execution.verdict = execution.unwinding
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
