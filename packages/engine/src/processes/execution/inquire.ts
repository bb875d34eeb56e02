import { checkInquiry } from '../../kernel/calls/inquiry.js'
import { callLimited } from '../../kernel/calls/limited.js'
import { classifyFailure, type Failure } from '../../kernel/failure/classify.js'
import { PermanentError } from '../../kernel/failure/failure-errors.js'
import { describeThrown } from '../../kernel/failure/thrown.js'
import type { StepSpec } from './call-spec.js'
import type { Call } from './calls.js'
import type { Execution } from './execution.js'

/** What is known of an at-most-once call whose outcome was unknown. */
export type Answer = 'notDone' | { readonly done: unknown } | Unanswered

/** Nobody knows: a person has to say it (K-20). */
export class Unanswered {
  readonly failure: Failure
  readonly noInquire: boolean

  constructor(problem: string, noInquire = false) {
    this.failure = classifyFailure(new PermanentError(problem, { code: 'OUTCOME_UNKNOWN' }), { unknown: 'permanent' })
    this.noInquire = noInquire
  }
}

/** Asks the other side what became of a call. It changes nothing: one that goes on beside the next call does no harm. */
export async function inquire(execution: Execution, call: Call, spec: StepSpec, thrown?: Failure): Promise<Answer> {
  const said = thrown ? ` (it threw ${thrown.code}: ${thrown.message})` : ''
  const { inquire: ask, timeoutMs } = spec
  if (!ask) return new Unanswered(`it was called, its outcome is not known, and it has no \`inquire\`${said}`, true)
  try {
    const idempotencyKey = execution.keyOf(call)
    // Not the signal of a cancellation: what is undone is inquired about, too.
    const around = () => [execution.lease.signal]
    const answer = await callLimited({ limitMs: timeoutMs, graceMs: 0, around }, (over) =>
      ask({ idempotencyKey, signal: over.signal }),
    )
    const checked = checkInquiry(answer)
    if (checked !== 'unknown') return checked
  } catch (error) {
    return new Unanswered(`its \`inquire\` failed: ${describeThrown(error).message}${said}`)
  }
  return new Unanswered(`it was called, and its \`inquire\` does not know whether it took effect${said}`)
}
