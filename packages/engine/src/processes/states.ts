/**
 * The states of a process. Terminal statuses never change. `EXECUTING` is not stored: a process is executing while it
 * is leased, whatever its stored status is.
 *
 * ```mermaid
 * stateDiagram-v2
 *     [*] --> PENDING: start
 *     PENDING --> EXECUTING: claim, or at once in the starter
 *     EXECUTING --> WAITING_FOR_ASYNC: wait, event, sleep, command, child
 *     EXECUTING --> WAITING_FOR_RETRY: transient failure, attempts left
 *     EXECUTING --> WAITING_FOR_TSQ: attempts used up, permanent failure, timeout
 *     EXECUTING --> COMPENSATING: business failure, deadline, cancel
 *     EXECUTING --> COMPLETED: execute returned
 *     EXECUTING --> FAILED: deadline or timeout that says so
 *     EXECUTING --> CANCELLED: cancel without compensation
 *     WAITING_FOR_ASYNC --> EXECUTING: response, timeout, deadline
 *     WAITING_FOR_RETRY --> EXECUTING: due
 *     WAITING_FOR_TSQ --> PENDING: operator retries
 *     WAITING_FOR_TSQ --> COMPENSATING: operator retries a compensation
 *     WAITING_FOR_TSQ --> COMPLETED: operator completes
 *     COMPENSATING --> COMPENSATED: all undone
 *     COMPENSATING --> CANCELLED: all undone after a cancel
 *     COMPENSATING --> WAITING_FOR_TSQ: a compensation failed for good
 * ```
 */
export const processStatuses = [
  'PENDING',
  'EXECUTING',
  'WAITING_FOR_ASYNC',
  'WAITING_FOR_RETRY',
  'WAITING_FOR_REPLY',
  'WAITING_FOR_TSQ',
  'COMPENSATING',
  'COMPENSATED',
  'COMPLETED',
  'CANCELLED',
  'FAILED',
] as const

export type ProcessStatus = (typeof processStatuses)[number]

export type EndStatus = 'COMPENSATED' | 'COMPLETED' | 'CANCELLED' | 'FAILED'

const ends: ReadonlySet<string> = new Set<EndStatus>(['COMPENSATED', 'COMPLETED', 'CANCELLED', 'FAILED'])

export function hasEnded(status: ProcessStatus): status is EndStatus {
  return ends.has(status)
}

export const deadlineActions = ['tsq', 'compensate', 'fail'] as const
export type DeadlineAction = (typeof deadlineActions)[number]

const UNFINISHED = processStatuses.filter((status) => !hasEnded(status))

export type ProcessVerb = 'retry' | 'complete' | 'cancel' | 'resume'

/** In which statuses a person can use a verb. */
export const verbStatuses: Readonly<Record<ProcessVerb, readonly ProcessStatus[]>> = {
  retry: ['WAITING_FOR_TSQ'],
  // A process that is being compensated never ends as completed.
  complete: UNFINISHED.filter((status) => status !== 'EXECUTING' && status !== 'COMPENSATING'),
  cancel: UNFINISHED,
  resume: ['PENDING', 'WAITING_FOR_ASYNC', 'WAITING_FOR_RETRY', 'COMPENSATING'],
}
