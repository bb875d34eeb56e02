import { callLimited } from '../../kernel/calls/limited.js'
import { classifyFailure, type Failure } from '../../kernel/failure/classify.js'
import type { RecordedFailure } from '../history.js'
import { stepCall } from './attempt.js'
import type { Undoing } from './call-spec.js'
import type { Call } from './calls.js'
import { retryDelay, toRecorded, type Verdict } from './decisions.js'
import type { Execution } from './execution.js'

const MAX_ATTEMPTS = 3
const RETRY_DELAY = 1_000
const TIMEOUT = 30_000

interface Undoable {
  readonly call: Call
  readonly undoing: Undoing
}

/** How the undoing stands: done, some given up, or to go on at a time. */
export type Unwound = { readonly done: true } | { readonly failed: RecordedFailure } | { readonly dueAt: number }

/** From here on nothing but compensations: on record, so that whoever goes on knows it too (P-14). */
export function beginUnwinding(execution: Execution, verdict: Extract<Verdict, { to: 'UNWIND' }>): void {
  const { reason, end, error } = verdict
  execution.journal.append({
    kind: 'UNWIND',
    name: reason,
    occurrence: 1,
    status: 'STARTED',
    detail: { reason, end, ...(error ? { error } : {}) },
  })
  execution.unwinding = verdict
}

/** Runs the compensations, the last recorded step first, one at a time, each recorded before the next begins. */
export async function unwind(execution: Execution): Promise<Unwound> {
  let failed: Failure | undefined
  for (const undoable of undoables(execution)) {
    const { call } = undoable
    const standing = execution.undone.get(call.id)
    if (standing?.progress === 'done') continue
    if (standing?.progress === 'failed') {
      failed ??= gaveUp(call)
      continue
    }
    if (standing?.nextAt !== undefined && standing.nextAt > execution.now()) return { dueAt: standing.nextAt }
    await execution.journal.flush()
    // Whoever goes on finds on record how far it came.
    if (execution.parts.stopping()) return { dueAt: execution.now() }
    const outcome = await undo(execution, undoable, standing?.attempts ?? 0)
    if ('dueAt' in outcome) return outcome
    if ('failed' in outcome) failed ??= gaveUp(call)
  }
  if (!failed) return { done: true }
  return { failed: { ...toRecorded(failed), code: 'COMPENSATION_FAILED' } }
}

const gaveUp = (call: Call): Failure =>
  classifyFailure(new Error(`the compensation of \`${call.id}\` failed ${MAX_ATTEMPTS} times; the record says why`), {
    unknown: 'permanent',
  })

function undoables({ calls }: Execution): Undoable[] {
  const found: Undoable[] = []
  for (const call of calls.all()) {
    if (!('compensate' in call.spec) || !call.spec.compensate) continue
    const attempted = call.spec.compensateIf === 'attempted' && (call.everAttempted || call.begun)
    if (call.completed || attempted) found.push({ call, undoing: call.spec })
  }
  return found.sort((a, b) => b.call.lastSeq - a.call.lastSeq)
}

async function undo(
  execution: Execution,
  { call, undoing }: Undoable,
  failedBefore: number,
): Promise<{ readonly done: true } | { readonly failed: true } | { readonly dueAt: number }> {
  const startedAt = Math.floor(execution.now())
  const base = { kind: 'COMPENSATION', name: call.name, occurrence: call.occurrence } as const
  const attempt = failedBefore + 1
  const record = (status: 'COMPLETED' | 'FAILED' | 'WAITING_RETRY', nextAt?: number, error?: Failure) => {
    execution.journal.append({
      ...base,
      status,
      attempt,
      ...(nextAt === undefined ? {} : { nextAt }),
      detail: { startedAt, maxAttempts: MAX_ATTEMPTS, ...(error ? { error: toRecorded(error) } : {}) },
    })
    const progress = status === 'COMPLETED' ? 'done' : status === 'FAILED' ? 'failed' : 'retrying'
    execution.undone.set(call.id, { attempts: attempt, nextAt, progress })
  }
  try {
    await callCompensation(execution, call, undoing, attempt)
    record('COMPLETED')
    return { done: true }
  } catch (error) {
    // Whatever failed: an undoing that fails leaves money where it should not be, so it is always tried again (K-08).
    const failure = execution.classify(error)
    if (attempt >= MAX_ATTEMPTS) {
      record('FAILED', undefined, failure)
      return { failed: true }
    }
    const dueAt = Math.floor(execution.now() + retryDelay(RETRY_DELAY, attempt))
    record('WAITING_RETRY', dueAt, failure)
    return { dueAt }
  }
}

async function callCompensation(execution: Execution, call: Call, undoing: Undoing, attempt: number): Promise<void> {
  // Not the signal of a cancellation: that is what made it begin.
  const around = () => [execution.lease.signal]
  await callLimited({ limitMs: TIMEOUT, graceMs: execution.parts.abortGraceMs, around }, (over) =>
    undoing.compensate?.(call.completed ? call.result : undefined, {
      ...stepCall(execution, call, MAX_ATTEMPTS, over),
      idempotencyKey: `${execution.keyOf(call)}/compensate`,
      attempt,
      signal: over.signal,
    }),
  )
}
