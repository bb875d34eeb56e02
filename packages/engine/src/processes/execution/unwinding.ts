// Compensates a process: finds the calls with an effect, or with an unknown outcome, and calls their compensations in
// reverse order of their records. `executor.ts` calls it after commands and children have ended. One compensation runs
// at a time, and its end is on record before the next begins.

import { classifyFailure, type Failure } from '../../kernel/failure/classify.js'
import { type CallOutcome, callLimited, mustCompensate } from '../../kernel/model/index.js'
import { retryDelay } from '../../kernel/retry/retry-policy.js'
import type { RecordedFailure } from '../history.js'
import { encodeResult, stepCall } from './attempt.js'
import type { EncodedResult } from './attempted.js'
import type { Undoing } from './call-spec.js'
import type { Call } from './calls.js'
import { type FinalDecision, toRecorded } from './decisions.js'
import type { Execution } from './execution.js'
import { inquire, Unanswered } from './inquire.js'
import type { Compensation } from './state.js'

interface Undoable {
  readonly call: Call
  readonly undoing: Undoing
}

/** The progress of the compensation: done, some failed for good, or to be continued at a time. */
export type Unwound = { readonly done: true } | { readonly failed: RecordedFailure } | { readonly dueAt: number }

/** From here on nothing but compensations. This is on record, so that the next worker knows it too. */
export function beginUnwinding(execution: Execution, decision: Extract<FinalDecision, { to: 'UNWIND' }>): void {
  const { reason, end, error } = decision
  const detail = { reason, end, ...(error ? { error } : {}) }
  execution.record({ kind: 'UNWIND', name: reason, occurrence: 1, status: 'STARTED', detail })
}

/**
 * Runs the compensations of all calls that have had their effect or may have had it, the last recorded one first, one at
 * a time, each recorded before the next begins.
 */
export async function unwind(execution: Execution): Promise<Unwound> {
  const { compensations } = execution.state
  let failed: Failure | undefined
  for (const undoable of undoables(execution)) {
    const { call, undoing } = undoable
    let standing = compensations.get(call.id)
    if (!standing || (standing.progress === 'retrying' && (standing.nextAt ?? 0) <= execution.now())) {
      await execution.journal.flush()
      // The next worker continues from the record.
      if (execution.parts.stopping()) return { dueAt: execution.now() }
      await settleOutcome(execution, call)
      if (!isToUndo(call, undoing)) continue
      await undo(execution, undoable, (standing?.attempts ?? 0) + 1)
      standing = compensations.get(call.id)
    }
    if (standing?.progress === 'retrying') return { dueAt: standing.nextAt ?? execution.now() }
    if (standing?.progress === 'failed') failed ??= gaveUp(undoable, standing)
  }
  if (!failed) return { done: true }
  return { failed: { ...toRecorded(failed), code: 'COMPENSATION_FAILED' } }
}

function gaveUp({ call, undoing }: Undoable, { problem }: Compensation): Failure {
  const times = undoing.compensateRetry.maxAttempts === 1 ? 'once' : `${undoing.compensateRetry.maxAttempts} times`
  const message = `the compensation of \`${call.id}\` failed ${times}${problem ? `, at last with ${problem}` : ''}`
  return classifyFailure(new Error(message), { unknown: 'permanent' })
}

/** The calls that would be compensated if the process were. */
export const callsToUndo = (execution: Execution): Call[] => undoables(execution).map(({ call }) => call)

function undoables({ state }: Execution): Undoable[] {
  const found: Undoable[] = []
  for (const call of state.calls.all()) {
    if ('compensate' in call.spec && call.spec.compensate && isToUndo(call, call.spec)) {
      found.push({ call, undoing: call.spec })
    }
  }
  return found.sort((a, b) => b.call.lastSeq - a.call.lastSeq)
}

const isToUndo = ({ outcome }: Call, { compensateIf }: Undoing): boolean =>
  outcome !== undefined && mustCompensate(outcome, compensateIf)

/** Inquires about an at-most-once call of unknown outcome before its compensation, and records the result. */
async function settleOutcome(execution: Execution, call: Call): Promise<void> {
  const { spec } = call
  if (!('atMostOnce' in spec) || !spec.atMostOnce || !spec.inquire || call.outcome !== 'unknown') return
  const answer = await inquire(execution, call, spec)
  if (answer instanceof Unanswered) return
  const attempt = call.attempts + 1
  if (answer === 'notDone') {
    const failure = classifyFailure(new Error('`inquire` says that it was not done'), { unknown: 'permanent' })
    execution.recordCall(call, { status: 'FAILED', attempt, detail: { outcome: answer, error: toRecorded(failure) } })
    return
  }
  const result = tryEncodeResult(execution, call, answer.done)
  if (result) await execution.perform(execution.recordCall(call, { status: 'COMPLETED', attempt }, result))
}

/** A result that cannot be stored is as good as unknown. */
function tryEncodeResult(execution: Execution, call: Call, value: unknown): EncodedResult | undefined {
  try {
    return encodeResult(execution, call, value)
  } catch (error) {
    execution.parts.logger.warn(
      { err: error, id: execution.item.id, call: call.id },
      'what `inquire` found cannot be stored',
    )
    return undefined
  }
}

async function undo(execution: Execution, { call, undoing }: Undoable, attempt: number): Promise<void> {
  const startedAt = Math.floor(execution.now())
  const { maxAttempts, policy } = undoing.compensateRetry
  let failure: Failure | undefined
  try {
    await callCompensation(execution, call, undoing, attempt)
  } catch (error) {
    failure = execution.classify(error)
  }
  // Whatever failed: a failed compensation leaves money where it should not be, so it is always retried (K-08).
  const isRetried = failure !== undefined && attempt < maxAttempts
  execution.record({
    kind: 'COMPENSATION',
    name: call.name,
    occurrence: call.occurrence,
    status: isRetried ? 'WAITING_RETRY' : failure ? 'FAILED' : 'COMPLETED',
    attempt,
    ...(isRetried ? { nextAt: Math.floor(execution.now() + retryDelay(policy, attempt)) } : {}),
    detail: { startedAt, maxAttempts, ...(failure ? { error: toRecorded(failure) } : {}) },
  })
}

async function callCompensation(execution: Execution, call: Call, undoing: Undoing, attempt: number): Promise<void> {
  // Not the signal of a cancellation: that is what made it begin.
  const around = () => [execution.lease.signal]
  const limits = { limitMs: undoing.compensateTimeoutMs, graceMs: execution.parts.abortGraceMs, around }
  const outcome: CallOutcome = call.outcome ?? 'unknown'
  await callLimited(limits, (over) =>
    undoing.compensate?.(outcome === 'completed' ? call.result : undefined, {
      ...stepCall(execution, call, undoing.compensateRetry.maxAttempts, over),
      idempotencyKey: `${execution.keyOf(call)}/compensate`,
      originalKey: execution.keyOf(call),
      attempt,
      outcome,
      signal: over.signal,
    }),
  )
}
