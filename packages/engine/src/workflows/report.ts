import type { Reported, ReportedEnd, Reports } from '../kernel/model/index.js'
import type { Decision, WorkflowEvent } from './decide/decision.js'
import { compensationOf, type WorkflowDefinition } from './definition/definition.js'
import type { AppliedEvent } from './instance-events.js'
import type { EventType } from './states.js'

const ENDS: Partial<Record<EventType, ReportedEnd>> = {
  workflow_completed: 'completed',
  workflow_failed: 'failed',
  workflow_cancelled: 'cancelled',
  workflow_aborted: 'cancelled',
}

/** Logs and counts what was committed. */
export function reportDecision(reports: Reports, { definition, decision, state, madeAt }: AppliedEvent): void {
  const { domain, type: workflow } = definition
  const what = { model: 'workflows', domain, type: workflow, id: state.id } as const
  for (const event of decision.events) {
    const { type, step, attempts } = event
    const end = ENDS[type]
    if (end) reports.ended(what, end, { totalMs: performance.now() - madeAt })
    else if (type === 'workflow_started') reports.started(what)
    else if (FAILED.has(type) && event.error)
      reportAttempt(reports, { ...what, step, attempt: attempts }, event, decision)
    if (type === 'step_failed' && event.error && isLeftUnknown(event, definition, decision)) {
      reports.needsPerson({ ...what, step }, event.error)
    }
  }
  for (const { step, failure, reason } of decision.deadLetters) {
    reports.needsPerson({ ...what, step }, { ...failure, message: `${failure.message} (${reason})` })
  }
}

/** A call of unknown outcome that nothing undoes and that is no dead letter: only the log shows it. */
function isLeftUnknown(
  { step, error }: WorkflowEvent,
  { steps }: WorkflowDefinition,
  { deadLetters }: Decision,
): boolean {
  const failed = steps.find(({ name }) => name === step)
  if (error?.code !== 'OUTCOME_UNKNOWN' || failed === undefined) return false
  return !compensationOf(failed) && deadLetters.every((letter) => letter.step !== step)
}

const FAILED: ReadonlySet<EventType> = new Set([
  'step_retry',
  'step_failed',
  'compensation_retry',
  'compensation_max_retries_exceeded',
])

function reportAttempt(reports: Reports, what: Reported, { type, error }: WorkflowEvent, decision: Decision): void {
  if (!error) return
  const { step } = what
  const stack = decision.steps.find(({ name }) => name === step)?.failure?.stack
  const again = type.endsWith('_retry') ? decision.enqueue.find((item) => item.step === step) : undefined
  reports.attemptFailed(what, { ...error, stack }, again && { retryInMs: again.delayMs })
}
