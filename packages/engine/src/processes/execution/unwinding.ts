// Compensates a process: finds the calls with an effect, or with an unknown outcome, and calls their compensations in
// reverse order of their records. `executor.ts` calls it after commands and children have ended. One compensation runs
// at a time, and its end is on record before the next begins.

import { callLimited } from '../../kernel/calls/limited.js'
import { type CallOutcome, mustCompensate } from '../../kernel/calls/outcome.js'
import { classifyFailure, type Failure } from '../../kernel/failure/classify.js'
import { retryDelay } from '../../kernel/retry/retry-policy.js'
import type { RecordedFailure } from '../history.js'
import { encodeResult, stepCall } from './attempt.js'
import type { EncodedResult } from './attempted.js'
import type { Undoing } from './call-spec.js'
import type { Call } from './calls.js'
import { type FinalDecision, toRecorded } from './decisions.js'
import type { Execution } from './execution.js'
import { inquire, Unanswered } from './inquire.js'

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
  let failed: Failure | undefined
  for (const undoable of undoables(execution)) {
    const { call, undoing } = undoable
    const standing = execution.state.compensations.get(call.id)
    if (standing?.progress === 'done') continue
    if (standing?.progress === 'failed') {
      failed ??= gaveUp(execution, undoable)
      continue
    }
    if (standing?.nextAt !== undefined && standing.nextAt > execution.now()) return { dueAt: standing.nextAt }
    await execution.journal.flush()
    // The next worker continues from the record.
    if (execution.parts.stopping()) return { dueAt: execution.now() }
    await settleOutcome(execution, call)
    if (!isToUndo(call, undoing)) continue
    const outcome = await undo(execution, undoable, standing?.attempts ?? 0)
    if ('dueAt' in outcome) return outcome
    if ('failed' in outcome) failed ??= gaveUp(execution, undoable)
  }
  if (!failed) return { done: true }
  return { failed: { ...toRecorded(failed), code: 'COMPENSATION_FAILED' } }
}

const gaveUp = ({ state }: Execution, { call, undoing }: Undoable): Failure => {
  const times = undoing.compensateRetry.maxAttempts === 1 ? 'once' : `${undoing.compensateRetry.maxAttempts} times`
  const problem = state.compensations.get(call.id)?.problem
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

async function undo(
  execution: Execution,
  { call, undoing }: Undoable,
  failedBefore: number,
): Promise<{ readonly done: true } | { readonly failed: true } | { readonly dueAt: number }> {
  const startedAt = Math.floor(execution.now())
  const { name, occurrence } = call
  const attempt = failedBefore + 1
  const { maxAttempts, policy } = undoing.compensateRetry
  const record = (status: 'COMPLETED' | 'FAILED' | 'WAITING_RETRY', error?: Failure, nextAt?: number) =>
    execution.record({
      kind: 'COMPENSATION',
      name,
      occurrence,
      status,
      attempt,
      ...(nextAt === undefined ? {} : { nextAt }),
      detail: { startedAt, maxAttempts, ...(error ? { error: toRecorded(error) } : {}) },
    })
  try {
    await callCompensation(execution, call, undoing, attempt)
    record('COMPLETED')
    return { done: true }
  } catch (error) {
    // Whatever failed: a failed compensation leaves money where it should not be, so it is always retried (K-08).
    const failure = execution.classify(error)
    if (attempt >= maxAttempts) {
      record('FAILED', failure)
      return { failed: true }
    }
    const dueAt = Math.floor(execution.now() + retryDelay(policy, attempt))
    record('WAITING_RETRY', failure, dueAt)
    return { dueAt }
  }
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
