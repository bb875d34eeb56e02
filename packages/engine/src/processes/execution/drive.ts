// Drives user code forward from the end of the record: begins calls, records their ends, checks waits, and says when
// nothing is left to do. `executor.ts` calls `drive` again after each thing that came in. No call may begin before
// everything that led to it is committed, and nothing new may begin after the final decision.

import { LONGEST_TIMER_MS } from '../../kernel/duration/duration.js'
import { HoldfastError } from '../../kernel/errors.js'
import type { Failure } from '../../kernel/failure/classify.js'
import { normalizeRetryPolicy } from '../../kernel/retry/retry-policy.js'
import type { JournalEvent } from '../queries/write-processes.js'
import { processOf } from '../refused.js'
import { attemptStep, databaseTrouble, isToTurn } from './attempt.js'
import { attemptTransaction } from './attempt-transaction.js'
import type { Arrival, Attempted, FailedAttempt } from './attempted.js'
import type { Attempts } from './call-spec.js'
import type { Call } from './calls.js'
import { decideFailedCall, decideFailure, type FinalDecision, toRecorded, trouble } from './decisions.js'
import type { Execution } from './execution.js'
import { throwIfLost } from './lost.js'
import { Mismatch } from './mismatch.js'
import { checkWaits, recordRemotes, remoteId } from './waiting.js'

/** Why an execution stops when nothing of it runs any more. */
export type DriveResult =
  | { readonly kind: 'ended'; readonly value: unknown }
  | { readonly kind: 'decided'; readonly finalDecision: FinalDecision }
  | { readonly kind: 'continue'; readonly state: unknown; readonly keepEffects: boolean }
  | { readonly kind: 'stopping' }
  | { readonly kind: 'waiting' }

/**
 * Continues until nothing runs and nothing can begin: records calls that have ended, one at a time; checks the waits; begins
 * new calls once everything that led to them is committed. Suspension and compensation begin only when all running calls have
 * ended and are recorded.
 */
export async function drive(execution: Execution): Promise<DriveResult> {
  const { arrivals, journal } = execution
  for (;;) {
    throwIfLost(execution)
    if (journal.committing) {
      await journal.committing
      continue
    }
    const arrival = arrivals.shift()
    if (arrival) {
      await absorb(execution, arrival)
      continue
    }
    decideTurn(execution)
    if (execution.finalDecision && !execution.unwinding) recordRemotes(execution)
    if (!isDecided(execution) && (await guarded(execution, () => checkWaits(execution)))) continue
    // A call may have ended during the check.
    if (arrivals.length > 0) continue
    const found = startable(execution)
    if (found.length > 0 && !stopsHere(execution)) {
      if (journal.dirty) {
        await journal.flush()
        if (arrivals.length > 0) continue
      }
      for (const call of found) start(execution, call)
      continue
    }
    if (execution.running > 0 || isForeignWait(execution)) {
      if (execution.finalDecision?.to === 'UNWIND') execution.cancelCalls()
      if (journal.dirty) await journal.flush()
      else if (arrivals.length === 0) await execution.wakeUp.wait(untilNext(execution))
      continue
    }
    return driveResult(execution, found.length > 0)
  }
}

/** Where it goes is known: nothing that comes from outside changes the way of user code any more. */
const isDecided = (execution: Execution): boolean => execution.finalDecision !== undefined || isOver(execution)

/** User code has said how it ends. What was begun is awaited and recorded, and changes nothing of that. */
const isOver = ({ ending, continuation }: Execution): boolean => ending !== undefined || continuation !== undefined

/** User code awaits something that is no call of ours: there is nothing to do but to keep the lease until it is cancelled. */
const isForeignWait = (execution: Execution): boolean => !isDecided(execution) && execution.calls.open().size === 0

/** Milliseconds until a wait times out or an attempt is due beside what is running; undefined when nothing will. */
function untilNext(execution: Execution): number | undefined {
  if (isDecided(execution)) return undefined
  const { calls, item, running } = execution
  const due = [...calls.with('waiting'), ...(stopsHere(execution) ? [] : calls.with('retrying'))]
  const times = due.flatMap(({ nextAt }) => nextAt ?? [])
  // A running call is never interrupted.
  if (item.deadline !== null && running === 0) times.push(item.deadline)
  return times.length === 0 ? undefined : Math.min(Math.max(0, Math.min(...times) - execution.now()), LONGEST_TIMER_MS)
}

function driveResult(execution: Execution, stopping: boolean): DriveResult {
  const { finalDecision, ending, continuation } = execution
  if (finalDecision) return { kind: 'decided', finalDecision }
  if (continuation) return { kind: 'continue', ...continuation }
  if (ending && 'value' in ending) return { kind: 'ended', value: ending.value }
  return stopping ? { kind: 'stopping' } : { kind: 'waiting' }
}

/** Sets the final decision if the process is cancelled, past its deadline, or `execute` threw. */
function decideTurn(execution: Execution): void {
  const { ending, cancel, finalDecision } = execution
  // A cancellation without compensation ends everything, also compensations; one with compensation lets them continue.
  if (cancel && finalDecision?.to !== 'END' && (cancel === 'PLAIN' || !execution.unwinding))
    execution.finalDecision = cancelled(cancel)
  if (execution.finalDecision) return
  if (ending && 'error' in ending) execution.failWith(ending.error)
  else if (!ending && pastDeadline(execution)) execution.finalDecision = decideDeadline(execution)
}

function cancelled(cancel: 'PLAIN' | 'COMPENSATE'): FinalDecision {
  if (cancel === 'PLAIN') return { to: 'END', end: 'CANCELLED', error: undefined }
  return { to: 'UNWIND', end: 'CANCELLED', reason: 'CANCEL', error: undefined }
}

/** Checked when a call is about to start, or when the process would suspend; a running call is never interrupted. */
function pastDeadline(execution: Execution): boolean {
  const { deadline } = execution.item
  return (
    deadline !== null && deadline <= execution.now() && (startable(execution).length > 0 || execution.running === 0)
  )
}

function decideDeadline(execution: Execution): FinalDecision {
  const { definition, settings } = execution.parts
  const action = settings.deadlineAction ?? definition.deadlineAction
  const error = toRecorded(
    execution.classify(new HoldfastError('HF_DEADLINE_EXCEEDED', processOf(definition.name, execution.item.id))),
  )
  const named = { ...error, code: 'DEADLINE_EXCEEDED' }
  if (action === 'compensate') return { to: 'UNWIND', end: 'COMPENSATED', reason: 'DEADLINE', error: named }
  if (action === 'fail') return { to: 'END', end: 'FAILED', error: named }
  return trouble('DEADLINE_EXCEEDED', named)
}

/** New calls, and those whose next attempt is due, unless `execute` is over; none after the final decision. */
function startable(execution: Execution): Call[] {
  if (execution.finalDecision) return []
  const found: Call[] = []
  const over = isOver(execution)
  for (const call of execution.calls.open()) {
    const due = call.progress === 'retrying' && !over && (call.nextAt ?? 0) <= execution.now()
    if (due || call.progress === 'new') found.push(call)
  }
  return found
}

const stopsHere = (execution: Execution): boolean => execution.parts.stopping()

function start(execution: Execution, call: Call): void {
  call.progress = 'running'
  execution.running += 1
  execution.hasBegun = true
  void run(execution, call)
    .then(
      (attempted) => arrive(execution, { call, attempted }),
      (error: unknown) => {
        execution.lost ??= error instanceof Error ? error : new Error(String(error))
        arrive(execution, undefined)
      },
    )
    .then(() => {
      if (call.spec.kind === 'TRANSACTION') execution.journal.endCommit()
    })
}

function arrive(execution: Execution, arrival: Arrival | undefined): void {
  execution.running -= 1
  if (arrival) takePlace(execution.arrivals, arrival)
  execution.wakeUp.fire()
}

/** What is on record already has its number, and takes effect before whatever still waits for one. */
function takePlace(arrivals: Arrival[], arrival: Arrival): void {
  const isRecorded = ({ attempted }: Arrival) => 'recorded' in attempted
  const place = isRecorded(arrival) ? arrivals.findIndex((other) => !isRecorded(other)) : -1
  if (place < 0) arrivals.push(arrival)
  else arrivals.splice(place, 0, arrival)
}

async function run(execution: Execution, call: Call): Promise<Attempted> {
  const { spec } = call
  switch (spec.kind) {
    case 'STEP':
    case 'SIDE_EFFECT':
      return attemptStep(execution, call, spec)
    case 'TRANSACTION':
      return attemptTransaction(execution, call, spec)
    case 'COMMAND':
    case 'CHILD': {
      const id = remoteId(execution, call)
      const startedAt = execution.now()
      // Whatever led to it is on record before it leaves.
      while (execution.journal.uncommitted) await execution.journal.flush()
      if (isToTurn(execution)) return { withdrawn: true }
      try {
        await spec.begin(id)
        return { begun: id }
      } catch (error) {
        const trouble = databaseTrouble(execution, error)
        // It may have arrived although the response was lost; a refused one was never sent.
        if (trouble) return { ...trouble, outcome: 'unknown' }
        return { failed: execution.classify(error), startedAt, outcome: undefined }
      }
    }
    default:
      throw new Error(`a ${spec.kind} is not run`)
  }
}

/** Records the end of an attempt and lets it take effect in user code. */
async function absorb(execution: Execution, { call, attempted }: Arrival): Promise<void> {
  if ('begun' in attempted) {
    call.started()
    return
  }
  if ('withdrawn' in attempted) {
    call.progress = call.attempts > 0 ? 'retrying' : 'new'
    return
  }
  if ('recorded' in attempted) {
    return complete(execution, call, attempted.recorded.event, attempted.recorded.encodedResult.value)
  }
  if ('notBegun' in attempted) return postpone(execution, call, attempted)
  if ('done' in attempted) {
    const { encoded, value } = attempted.done
    const event = execution.journal.append({
      kind: call.spec.kind,
      name: call.name,
      occurrence: call.occurrence,
      status: 'COMPLETED',
      attempt: call.attempts + 1,
      detail: detailOf(call, attempted.startedAt, encoded === undefined),
      ...(encoded ? { encoded } : {}),
    })
    return complete(execution, call, event, value)
  }
  return fail(execution, call, attempted)
}

async function complete(
  execution: Execution,
  call: Call,
  { seq, at }: Pick<JournalEvent, 'seq' | 'at'>,
  value: unknown,
): Promise<void> {
  call.lastSeq = seq
  await execution.complete(call, value, at)
}

/** No slot in time, or no database: tried again later, and no attempt is used up. */
function postpone(
  execution: Execution,
  call: Call,
  { notBegun, retryAfterMs, outcome }: Extract<Attempted, { notBegun: unknown }>,
): void {
  call.postpone(outcome)
  call.nextAt = Math.ceil(execution.now() + retryAfterMs)
  const { seq } = execution.journal.append({
    kind: call.spec.kind,
    name: call.name,
    occurrence: call.occurrence,
    status: 'WAITING_RETRY',
    attempt: call.attempts,
    nextAt: call.nextAt,
    detail: { error: toRecorded(notBegun), ...(outcome ? { outcome } : {}) },
  })
  call.lastSeq = seq
}

/** For calls that are never made again: waits, sleeps, commands and children. */
const ONCE: Attempts = { maxAttempts: 1, policy: normalizeRetryPolicy([]) }

async function fail(execution: Execution, call: Call, attempted: FailedAttempt): Promise<void> {
  const { failed, startedAt, outcome, unanswered } = attempted
  const { spec } = call
  if (outcome !== undefined) call.attempts += 1
  const retry = 'retry' in spec ? spec.retry : ONCE
  const { maxAttempts } = retry
  const onFailure = 'onFailure' in spec && !unanswered ? spec.onFailure : 'tsq'
  // The loser of a race, say: it is not retried. If its outcome is unknown, an operator must settle it all the same.
  const over = isOver(execution) && !unanswered
  const attempts = over ? maxAttempts : call.attempts
  const decision = decideFailedCall(failed, { attempts, retry, onFailure })
  const error = toRecorded(failed)
  const nextAt = decision.status === 'WAITING_RETRY' ? Math.floor(execution.now() + decision.delayMs) : undefined
  const event = execution.journal.append({
    kind: spec.kind,
    name: call.name,
    occurrence: call.occurrence,
    status: decision.status,
    attempt: call.attempts,
    ...(nextAt === undefined ? {} : { nextAt }),
    detail: {
      startedAt: Math.floor(startedAt),
      maxAttempts,
      error,
      ...(outcome ? { outcome } : {}),
      ...(unanswered?.noInquire ? { noInquire: true } : {}),
      ...(decision.status === 'FAILED' && decision.thrown ? { thrown: true } : {}),
      ...(over ? { afterEnd: true } : {}),
    },
  })
  call.lastSeq = event.seq
  call.nextAt = nextAt
  call.attempted(outcome)
  if (decision.status === 'WAITING_RETRY') call.progress = 'retrying'
  else if (decision.thrown) await execution.settle(call, { failed: error }, event.at)
  else {
    call.progress = 'failed'
    if (over) warnOfLate(execution, call, failed)
    else execution.failCall(call, unanswered ? trouble('OUTCOME_UNKNOWN', error) : decision.finalDecision)
  }
}

function warnOfLate({ item, parts }: Execution, call: Call, { code, message }: Failure): void {
  const about = { id: item.id, type: item.type, call: call.id, code, problem: message }
  parts.logger.warn(about, 'a call failed after `execute` had ended, which stands')
}

function detailOf(call: Call, startedAt: number, nothing: boolean) {
  const { spec } = call
  return {
    startedAt: Math.floor(startedAt),
    ...('retry' in spec && spec.retry.maxAttempts > 1 ? { maxAttempts: spec.retry.maxAttempts } : {}),
    ...('request' in spec && spec.request !== undefined ? { request: spec.request } : {}),
    ...(nothing ? { nothing: true } : {}),
  }
}

/** A reducer or condition that throws is a failure of this process only. */
async function guarded(execution: Execution, check: () => Promise<boolean>): Promise<boolean> {
  try {
    return await check()
  } catch (error) {
    if (error instanceof Mismatch) throw error
    execution.finalDecision ??= decideFailure({ ...toRecorded(execution.classify(error)), kind: 'PERMANENT' })
    return true
  }
}
