/**
 * The states of an item. Each transition requires the status before it. On our own engine `CLAIMED` is passed within
 * one transaction and never seen.
 *
 * ```mermaid
 * stateDiagram-v2
 *     [*] --> READY: schedule
 *     READY --> READY: replaced by the scheduler
 *     READY --> CLAIMED: a cycle claims a batch
 *     CLAIMED --> DISPATCHED: its execution is started
 *     CLAIMED --> READY: the start was refused, or its outcome was unknown and no execution was found
 *     READY --> FAILED: cancelled by an operator
 *     DISPATCHED --> COMPLETED: the execution completed
 *     DISPATCHED --> FAILED: compensated, cancelled, aborted
 *     DISPATCHED --> READY: failed technically, or not found any more
 *     CLAIMED --> DEAD_LETTER: failed too often
 *     DISPATCHED --> DEAD_LETTER: failed too often
 *     CLAIMED --> READY: a person says that it was not started
 *     CLAIMED --> COMPLETED: a person says that it was executed
 *     DEAD_LETTER --> READY: retried by an operator
 *     DEAD_LETTER --> COMPLETED: completed by an operator
 *     DEAD_LETTER --> FAILED: cancelled by an operator
 *     COMPLETED --> [*]
 *     FAILED --> [*]
 * ```
 */
export const dispatchStatuses = ['READY', 'CLAIMED', 'DISPATCHED', 'COMPLETED', 'FAILED', 'DEAD_LETTER'] as const

export type DispatchStatus = (typeof dispatchStatuses)[number]

const UNCERTAIN = 'CLAIMED by a start that ended without an answer'

/** In which statuses a person can use a verb. */
export const verbStatuses = {
  retry: ['DEAD_LETTER', UNCERTAIN],
  complete: ['DEAD_LETTER', UNCERTAIN],
  cancel: ['READY', 'DISPATCHED', 'DEAD_LETTER'],
  reschedule: ['READY'],
  expedite: ['READY'],
} as const
