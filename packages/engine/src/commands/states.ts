import type { Failure } from '../kernel/failure/classify.js'
import { type RetryPolicy, retryDelay, shouldRetry } from '../kernel/retry/retry-policy.js'

/**
 * The states of a command. Terminal statuses never change; the functions in sql/functions/commands-*.sql change a command
 * only along an arrow.
 *
 * ```mermaid
 * stateDiagram-v2
 *     [*] --> PENDING: send
 *     PENDING --> IN_PROGRESS: receive
 *     IN_PROGRESS --> PENDING: transient failure, attempts left
 *     IN_PROGRESS --> COMPLETED: success
 *     IN_PROGRESS --> FAILED: business failure
 *     IN_PROGRESS --> IN_TROUBLESHOOTING_QUEUE: permanent failure, attempts used up
 *     PENDING --> CANCELLED: cancel before the first receive
 *     IN_TROUBLESHOOTING_QUEUE --> PENDING: operator retries
 *     IN_TROUBLESHOOTING_QUEUE --> COMPLETED: operator completes
 *     IN_TROUBLESHOOTING_QUEUE --> CANCELLED: operator cancels
 * ```
 */
export type CommandStatus =
  | 'PENDING'
  | 'IN_PROGRESS'
  | 'COMPLETED'
  | 'FAILED'
  | 'CANCELLED'
  | 'IN_TROUBLESHOOTING_QUEUE'

export const commandStatuses: readonly CommandStatus[] = [
  'PENDING',
  'IN_PROGRESS',
  'COMPLETED',
  'FAILED',
  'CANCELLED',
  'IN_TROUBLESHOOTING_QUEUE',
]

/** In which statuses a person can use a verb. */
export const verbStatuses = {
  retry: ['IN_TROUBLESHOOTING_QUEUE'],
  complete: ['IN_TROUBLESHOOTING_QUEUE'],
  cancel: ['PENDING before its first attempt', 'IN_TROUBLESHOOTING_QUEUE'],
} as const

/** The decision about a failed attempt. */
export type FailedAttempt =
  | { readonly outcome: 'FAILED' }
  | { readonly outcome: 'TSQ' }
  | { readonly outcome: 'RETRY'; readonly delayMs: number }

export function decideFailedAttempt(
  failure: Failure,
  attempt: number,
  maxAttempts: number,
  policy: RetryPolicy,
  random?: () => number,
): FailedAttempt {
  if (failure.kind === 'BUSINESS') return { outcome: 'FAILED' }
  if (failure.kind === 'PERMANENT' || !shouldRetry(attempt, maxAttempts)) return { outcome: 'TSQ' }
  return { outcome: 'RETRY', delayMs: retryDelay(policy, attempt, random) }
}
