// The statuses and events of instances and steps, and which are final. Pure words: everything in workflows may import them.

/**
 * The states of an instance. Terminal statuses never change. `decide` is the only place that changes them.
 *
 * ```mermaid
 * stateDiagram-v2
 *     [*] --> PENDING: start
 *     PENDING --> RUNNING: taken up
 *     RUNNING --> COMPLETED: the path has ended
 *     RUNNING --> ROLLING_BACK: a step failed for good (saga mode)
 *     RUNNING --> DLQ: a step failed for good (DLQ mode)
 *     DLQ --> RUNNING: requeue
 *     ROLLING_BACK --> FAILED: the last compensation ended
 *     PENDING --> CANCELLED: cancel
 *     RUNNING --> CANCELLING: cancel
 *     DLQ --> CANCELLING: cancel
 *     ROLLING_BACK --> CANCELLING: cancel
 *     CANCELLING --> CANCELLED: all undone
 *     CANCELLING --> FAILED: a compensation failed for good
 *     PENDING --> ABORTED: abort
 *     RUNNING --> ABORTED: abort, or a person rejects
 *     DLQ --> ABORTED: abort, or a person rejects
 *     ROLLING_BACK --> ABORTED: abort
 *     CANCELLING --> ABORTED: abort
 * ```
 */
export const instanceStatuses = [
  'PENDING',
  'RUNNING',
  'ROLLING_BACK',
  'CANCELLING',
  'COMPLETED',
  'FAILED',
  'CANCELLED',
  'ABORTED',
  'DLQ',
] as const

export type InstanceStatus = (typeof instanceStatuses)[number]

export type InstanceEnd = 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'ABORTED'

const ends: ReadonlySet<string> = new Set<InstanceEnd>(['COMPLETED', 'FAILED', 'CANCELLED', 'ABORTED'])

export function instanceHasEnded(status: InstanceStatus): status is InstanceEnd {
  return ends.has(status)
}

/** In which statuses of an instance a person can use a verb. */
export const verbStatuses = {
  retry: ['DLQ', 'RUNNING with a step that waits for its next attempt'],
  complete: ['DLQ'],
  cancel: instanceStatuses.filter((status) => !instanceHasEnded(status)),
} as const

/** The same of one step of it. */
export const stepVerbStatuses = {
  retry: ['PAUSED after it failed for good', 'PENDING for its next attempt', 'FAILED with its compensation'],
  complete: ['PAUSED after it failed for good', 'FAILED with its compensation'],
  decide: ['WAITING_DECISION'],
} as const

/**
 * The states of a step. A step that has not been reached has no record. Joins are `PENDING` while they wait, forks that are their
 * own join `RUNNING`; conditions, forks, joins and save points are decided on the way and never queued.
 *
 * ```mermaid
 * stateDiagram-v2
 *     [*] --> PENDING: reached
 *     [*] --> WAITING_DECISION: reached (human)
 *     [*] --> COMPLETED: reached (condition, fork, save point)
 *     [*] --> PAUSED: reached while the instance is in the DLQ
 *     PENDING --> RUNNING: claimed
 *     RUNNING --> COMPLETED: the handler returned
 *     RUNNING --> PENDING: failed, attempts left; or released
 *     RUNNING --> FAILED: failed for good (saga mode)
 *     RUNNING --> PAUSED: failed for good (DLQ mode)
 *     PENDING --> PAUSED: frozen
 *     PENDING --> COMPLETED: a join fires
 *     PENDING --> FAILED: every branch of an `any` join failed
 *     PAUSED --> PENDING: requeued, or unfrozen
 *     PAUSED --> RUNNING: unfrozen (parallel)
 *     PAUSED --> WAITING_DECISION: unfrozen (human)
 *     PAUSED --> COMPLETED: unfrozen (condition, fork, join, save point); a person says that it was done
 *     PAUSED --> FAILED: if it had failed for good: cancel, abort, lost to another branch
 *     WAITING_DECISION --> CONFIRMED: a person confirms
 *     WAITING_DECISION --> REJECTED: a person rejects
 *     PENDING --> SKIPPED: failure, cancel, abort, lost to another branch
 *     RUNNING --> SKIPPED: cancel, abort, lost to another branch; failure, where it was not called yet
 *     PAUSED --> SKIPPED: cancel, abort, lost to another branch
 *     WAITING_DECISION --> SKIPPED: failure, cancel, abort, lost to another branch
 *     SKIPPED --> COMPLETED: its handler returned anyway
 *     SKIPPED --> COMPENSATING: its turn in the rollback, if it was called and its outcome is unknown
 *     SKIPPED --> ROLLED_BACK: the same, and it has no compensation
 *     COMPLETED --> COMPENSATING: its turn in the rollback
 *     CONFIRMED --> COMPENSATING: its turn in the rollback
 *     FAILED --> COMPENSATING: its turn in the rollback; requeue
 *     COMPENSATING --> ROLLED_BACK: undone
 *     COMPENSATING --> FAILED: the compensation failed for good
 *     COMPENSATING --> COMPLETED: abort
 *     COMPENSATING --> CONFIRMED: abort
 *     COMPLETED --> ROLLED_BACK: its turn, and it has no compensation
 *     CONFIRMED --> ROLLED_BACK: its turn, and it has no compensation
 *     FAILED --> ROLLED_BACK: its turn, and it has no compensation; a person says that it is undone
 * ```
 */
export const stepStatuses = [
  'PENDING',
  'RUNNING',
  'COMPLETED',
  'FAILED',
  'PAUSED',
  'COMPENSATING',
  'ROLLED_BACK',
  'SKIPPED',
  'WAITING_DECISION',
  'CONFIRMED',
  'REJECTED',
] as const

export type StepStatus = (typeof stepStatuses)[number]

/** The names of what is written down. */
export const eventTypes = [
  'workflow_started',
  'workflow_completed',
  'workflow_failed',
  'workflow_cancelled',
  'workflow_aborted',
  'step_started',
  'step_completed',
  'step_retry',
  'step_failed',
  'step_skipped',
  'fork_started',
  'join_completed',
  'condition_evaluated',
  'compensation_started',
  'compensation_retry',
  'compensation_success',
  'compensation_max_retries_exceeded',
  'step_skipped_missing_handler',
  // Claimed and released before it was called, by a worker that stops.
  'step_released',
  'decision_made',
  'cancellation_started',
  'abort_started',
  'dlq_created',
  'dlq_requeued',
] as const

export type EventType = (typeof eventTypes)[number]
