// One attempt of a step: inquiry, rate limit, the `STARTED` record of an at-most-once step, the call itself, its
// result. `drive.ts` calls it; `attempt-transaction.ts` is its counterpart for transactions. An at-most-once step must
// be on record before its code is called. A lost lease is thrown, never recorded as a failure.

import { HoldfastError } from '../../kernel/errors.js'
import type { Failure } from '../../kernel/failure/classify.js'
import { PermanentError, TransientError } from '../../kernel/failure/failure-errors.js'
import { callLimited, codeOf, isTransient, type LazySignal, outcomeOfFailure } from '../../kernel/model/index.js'
import type { StepCall } from '../context.js'
import type { Attempted, EncodedResult, FailedAttempt } from './attempted.js'
import { awaitSlot } from './await-slot.js'
import type { StepSpec } from './call-spec.js'
import type { Call } from './calls.js'
import type { Execution } from './execution.js'
import { type Answer, inquire, Unanswered } from './inquire.js'
import { insideCall } from './inside-call.js'
import { isLostLease, leaseLost } from './lost.js'

const TROUBLE_DELAY = 1_000
/** What a statement's own time limits end will take as long the next time: that is the call's own failure. */
const OWN_LIMITS = new Set(['57014', '55P03'])

/**
 * Calls a step's own code. Before the call: what is unknown of an earlier call of an at-most-once step, the slot of its
 * rate limit, its `STARTED` record, everything that led to it on record; and then, once more, whether it is still to be called.
 */
export async function attemptStep(execution: Execution, call: Call, spec: StepSpec): Promise<Attempted> {
  let before: 'notDone' | undefined
  if (spec.atMostOnce && call.outcome === 'unknown') {
    const startedAt = execution.now()
    const answer = await inquire(execution, call, spec)
    if (answer !== 'notDone') return answered(execution, call, answer, startedAt)
    before = answer
  }
  const held = spec.rateLimit ? await awaitSlot(execution, spec.rateLimit) : undefined
  if (held) return before && 'notBegun' in held ? { ...held, outcome: before } : held
  if (spec.atMostOnce) await beginOnce(execution, call, before)
  // While it waited for its slot or for its own record, other calls may have ended and user code gone on: what it
  // reads of the state now must be on record too.
  while (execution.journal.uncommitted) await execution.journal.flush()
  if (spec.atMostOnce || spec.rateLimit) refuseIfExpired(execution)
  if (isToTurn(execution)) return withdraw(execution, call)
  const startedAt = execution.now()
  let value: unknown
  try {
    value = await callStep(execution, call, spec)
  } catch (error) {
    if (isLostLease(error)) throw error
    return failedStep(execution, call, spec, error, startedAt)
  }
  return finished(execution, call, value, startedAt)
}

function callStep(execution: Execution, call: Call, spec: StepSpec): Promise<unknown> {
  const limits = { limitMs: spec.timeoutMs, graceMs: execution.parts.abortGraceMs, around: signalsOf(execution) }
  return callLimited(limits, (over) =>
    insideCall(execution, call, () => spec.run(stepCall(execution, call, spec.retry.maxAttempts, over))),
  )
}

/** On record before the call: after a crash it is known that the outcome is not. So is what became of the attempts before. */
async function beginOnce(execution: Execution, call: Call, before: 'notDone' | undefined): Promise<void> {
  const detail = before ? { outcome: before } : null
  execution.recordCall(call, { status: 'STARTED', attempt: call.attempts + 1, detail })
  await execution.journal.flush()
}

/** Another worker may have claimed it by now, if this worker was frozen for longer than its lease. */
function refuseIfExpired({ lease }: Execution): void {
  if (lease.aborted || lease.remaining() <= 0) throw leaseLost(lease.item)
}

/** Whether the process stops, is cancelled or is past its deadline since the call began to wait: nothing more is begun then. */
export function isToTurn(execution: Execution): boolean {
  const { item, parts } = execution
  if (isTurned(execution) || parts.stopping()) return true
  return item.deadline !== null && item.deadline <= execution.now()
}

const isTurned = ({ state }: Execution): boolean => state.finalDecision !== undefined || state.cancel !== null

function withdraw(execution: Execution, call: Call): Attempted {
  if (!call.begun) return { withdrawn: true }
  // `STARTED` is on record: that it was not called has to be, too.
  const why = new TransientError('it was not called: the process was stopped, cancelled or past its deadline', {
    code: 'NOT_CALLED',
  })
  return { notBegun: execution.classify(why), retryAfterMs: 0, outcome: 'notDone' }
}

async function failedStep(
  execution: Execution,
  call: Call,
  spec: StepSpec,
  error: unknown,
  startedAt: number,
): Promise<Attempted> {
  const failure = execution.classify(error)
  const outcome = outcomeOfFailure(failure)
  const failed: FailedAttempt = { failed: failure, startedAt, outcome }
  // Before a compensation the outcome is inquired about then.
  if (outcome === 'refused' || !spec.atMostOnce || isTurned(execution)) return failed
  const answer = await inquire(execution, call, spec, failure)
  return answer === 'notDone' ? { ...failed, outcome: answer } : answered(execution, call, answer, startedAt)
}

function answered(execution: Execution, call: Call, answer: Exclude<Answer, 'notDone'>, startedAt: number): Attempted {
  if (!(answer instanceof Unanswered)) return finished(execution, call, answer.done, startedAt)
  const { failure, noInquire } = answer
  return { failed: failure, startedAt, outcome: 'unknown', unanswered: { noInquire } }
}

/** It has had its effect. A result that cannot be stored does not change that. */
function finished(execution: Execution, call: Call, value: unknown, startedAt: number): Attempted {
  try {
    return { done: encodeResult(execution, call, value), startedAt }
  } catch (error) {
    return { failed: execution.classify(error), startedAt, outcome: 'unknown' }
  }
}

const signalsOf = (execution: Execution) => () => [
  execution.cancelSignal,
  execution.cancelCallsSignal,
  execution.lease.signal,
]

export function stepCall(execution: Execution, call: Call, maxAttempts: number, over: LazySignal): StepCall {
  return {
    idempotencyKey: execution.keyOf(call),
    attempt: call.attempts + 1,
    maxAttempts,
    logger: execution.parts.logger,
    get signal() {
      return over.signal
    },
  }
}

export function encodeResult({ parts: { codec } }: Execution, call: Call, value: unknown): EncodedResult {
  if (value === undefined) return { encoded: undefined, value }
  return storable(() => {
    const encoded = codec.encode(value, { at: `the result of ${call.id}` })
    return { encoded, value: codec.decode({ json: JSON.parse(encoded.json), notes: encoded.notes }) }
  })
}

/** A value of user code that cannot be stored is no different the next time. */
export function storable<Result>(encode: () => Result): Result {
  try {
    return encode()
  } catch (error) {
    const code = error instanceof HoldfastError ? error.code : 'HF_NOT_ENCODABLE'
    throw new PermanentError(error instanceof Error ? error.message : String(error), { code, cause: error })
  }
}

/** Our own database gave up on it: it is tried again, and no attempt is used up. */
export function databaseTrouble(
  execution: Execution,
  error: unknown,
): { readonly notBegun: Failure; readonly retryAfterMs: number } | undefined {
  if (!isTransient(error) || OWN_LIMITS.has(codeOf(error))) return undefined
  const message = error instanceof Error ? error.message : String(error)
  const trouble = new TransientError(message, { code: 'DATABASE_TROUBLE', cause: error })
  return { notBegun: execution.classify(trouble), retryAfterMs: TROUBLE_DELAY }
}
