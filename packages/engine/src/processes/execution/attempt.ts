import { setTimeout as sleep } from 'node:timers/promises'
import { callLimited, type LazySignal } from '../../kernel/calls/limited.js'
import { codeOf, isTransient } from '../../kernel/database/transient.js'
import { formatDuration } from '../../kernel/duration/duration.js'
import { HoldfastError } from '../../kernel/errors.js'
import { classifyFailure, type Failure } from '../../kernel/failure/classify.js'
import { PermanentError, TransientError } from '../../kernel/failure/failure-errors.js'
import type { StepCall } from '../context.js'
import type { Attempted, Sealed } from './attempted.js'
import type { StepSpec } from './call-spec.js'
import type { Call } from './calls.js'
import type { Execution } from './execution.js'

const TROUBLE_DELAY = 1_000
/** What a statement's own time limits end will take as long the next time: that is the call's own failure. */
const OWN_LIMITS = new Set(['57014', '55P03'])

/** Calls a step's own code: its rate limit, its time limit, and what is unknown of an earlier call. */
export async function attemptStep(execution: Execution, call: Call, spec: StepSpec): Promise<Attempted> {
  const refused = spec.rateLimit ? await awaitSlot(execution, spec.rateLimit) : undefined
  if (refused) return refused
  let startedAt = execution.now()
  try {
    if (spec.atMostOnce) {
      const known = call.begun ? await inquire(execution, call, spec) : 'notDone'
      if (known !== 'notDone') return { done: seal(execution, call, known.done), startedAt }
      await beginOnce(execution, call)
      startedAt = execution.now()
    }
    // While it waited for its slot or for its own record, other calls may have ended and user code gone on: what it
    // reads of the state now must be on record too.
    while (execution.journal.uncommitted) await execution.journal.flush()
    if (spec.atMostOnce) refuseIfExpired(execution)
    const limits = {
      limitMs: spec.timeoutMs,
      graceMs: execution.parts.abortGraceMs,
      around: signalsOf(execution),
    }
    const value = await callLimited(limits, (over) => spec.run(stepCall(execution, call, spec.maxAttempts, over)))
    return { done: seal(execution, call, value), startedAt }
  } catch (error) {
    if (error instanceof OutcomeUnknown) return { failed: error.failure, startedAt, unknown: true }
    if (isLostLease(error)) throw error
    const failure = execution.classify(error)
    if (!spec.atMostOnce || failure.code !== 'TIMEOUT') return { failed: failure, startedAt }
    return afterTimeout(execution, call, spec, failure, startedAt)
  }
}

async function awaitSlot(
  execution: Execution,
  { key, maxWaitMs }: { key: string; maxWaitMs: number },
): Promise<Attempted | undefined> {
  try {
    const slot = await execution.parts.limiter.reserve(key, maxWaitMs)
    if (slot.granted) {
      if (slot.waitMs > 0) await sleep(slot.waitMs)
      return undefined
    }
    const error = new TransientError(`the rate limit ${key} has no slot within ${formatDuration(maxWaitMs)}`, {
      code: 'RATE_LIMITED',
    })
    return { refused: execution.classify(error), retryAfterMs: slot.retryAfterMs }
  } catch (error) {
    return { failed: execution.classify(error), startedAt: execution.now() }
  }
}

/** On record before the call: after a crash it is known that the outcome is not (P-17). */
async function beginOnce({ journal }: Execution, call: Call): Promise<void> {
  journal.append({
    kind: call.spec.kind,
    name: call.name,
    occurrence: call.occurrence,
    status: 'STARTED',
    attempt: call.attempts + 1,
  })
  call.begun = true
  await journal.flush()
}

/** Somebody else may have it by now, if this process stood still for longer than its lease. */
function refuseIfExpired({ lease }: Execution): void {
  if (lease.remaining() > 0) return
  throw new HoldfastError('HF_LEASE_LOST', { id: lease.item.id, epoch: String(lease.item.epoch) })
}

async function inquire(
  execution: Execution,
  call: Call,
  spec: StepSpec,
): Promise<'notDone' | { readonly done: unknown }> {
  if (!spec.inquire) throw new OutcomeUnknown('it was called, its outcome is not on record, and it has no `inquire`')
  try {
    const idempotencyKey = execution.keyOf(call)
    // It changes nothing: one that goes on beside the next call does no harm.
    const answer = await callLimited({ limitMs: spec.timeoutMs, graceMs: 0, around: signalsOf(execution) }, (over) =>
      spec.inquire?.({ idempotencyKey, signal: over.signal }),
    )
    if (answer === 'notDone') return answer
    if (typeof answer === 'object' && answer !== null && 'done' in answer) return answer
  } catch (error) {
    throw new OutcomeUnknown(`its \`inquire\` failed: ${error instanceof Error ? error.message : String(error)}`)
  }
  throw new OutcomeUnknown('it was called, and its `inquire` does not know whether it took effect')
}

async function afterTimeout(
  execution: Execution,
  call: Call,
  spec: StepSpec,
  failure: Failure,
  startedAt: number,
): Promise<Attempted> {
  try {
    const known = await inquire(execution, call, spec)
    if (known === 'notDone') return { failed: failure, startedAt }
    return { done: seal(execution, call, known.done), startedAt }
  } catch (error) {
    if (error instanceof OutcomeUnknown) return { failed: error.failure, startedAt, unknown: true }
    return { failed: execution.classify(error), startedAt }
  }
}

const signalsOf = (execution: Execution) => () => [execution.cancelSignal, execution.lease.signal]

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

export function seal(execution: Execution, call: Call, value: unknown): Sealed {
  if (value === undefined) return { encoded: undefined, value }
  const { codec } = execution.parts
  try {
    const encoded = codec.encode(value, { at: `the result of ${call.id}` })
    return { encoded, value: codec.decode({ json: JSON.parse(encoded.json), notes: encoded.notes }) }
  } catch (error) {
    const code = error instanceof HoldfastError ? error.code : 'HF_NOT_ENCODABLE'
    throw new PermanentError(error instanceof Error ? error.message : String(error), { code, cause: error })
  }
}

/** Our own database gave up on it (K-11): nothing took place, it is tried again, and no attempt is used up. */
export function databaseTrouble(execution: Execution, error: unknown): Attempted | undefined {
  if (!isTransient(error) || OWN_LIMITS.has(codeOf(error))) return undefined
  const message = error instanceof Error ? error.message : String(error)
  const trouble = new TransientError(message, { code: 'DATABASE_TROUBLE', cause: error })
  return { refused: execution.classify(trouble), retryAfterMs: TROUBLE_DELAY }
}

export function isLostLease(error: unknown): boolean {
  return error instanceof HoldfastError && error.code === 'HF_LEASE_LOST'
}

class OutcomeUnknown extends Error {
  readonly failure: Failure

  constructor(message: string) {
    super(message)
    this.failure = classifyFailure(new PermanentError(message, { code: 'OUTCOME_UNKNOWN' }), { unknown: 'permanent' })
  }
}
