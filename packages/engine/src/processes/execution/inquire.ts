import { classifyFailure, type Failure } from '../../kernel/failure/classify.js'
import { PermanentError } from '../../kernel/failure/failure-errors.js'
import { inquire as inquireAbout } from '../../kernel/model/index.js'
import type { StepSpec } from './call-spec.js'
import type { Call } from './calls.js'
import type { Execution } from './execution.js'

/** What is known of an at-most-once call whose outcome was unknown. */
export type Answer = 'notDone' | { readonly done: unknown } | Unanswered

/** The outcome stays unknown: an operator must settle it. */
export class Unanswered {
  readonly failure: Failure
  readonly noInquire: boolean

  constructor(problem: string, noInquire = false) {
    this.failure = classifyFailure(new PermanentError(problem, { code: 'OUTCOME_UNKNOWN' }), { unknown: 'permanent' })
    this.noInquire = noInquire
  }
}

/** Asks what became of a call that must not be repeated. */
export async function inquire(execution: Execution, call: Call, spec: StepSpec, thrown?: Failure): Promise<Answer> {
  const said = thrown ? ` (it threw ${thrown.code}: ${thrown.message})` : ''
  const { inquire: ask, timeoutMs } = spec
  if (!ask) return new Unanswered(`it was called, its outcome is not known, and it has no \`inquire\`${said}`, true)
  const idempotencyKey = execution.keyOf(call)
  const answer = await inquireAbout((over) => ask({ idempotencyKey, signal: over.signal }), {
    limitMs: timeoutMs,
    patienceMs: execution.parts.inquireForMs,
    // Not the signal of a cancellation: calls are inquired about before their compensation, too.
    signal: () => execution.lease.signal,
  })
  if (typeof answer === 'string' || 'done' in answer) return answer
  return new Unanswered(`it was called, and ${answer.problem}${said}`)
}
