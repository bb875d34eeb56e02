/**
 * The statuses of a payment, in one place. The database has the same list as a CHECK, and every change of a status goes
 * through `becomes`.
 *
 * ```mermaid
 * stateDiagram-v2
 *     [*] --> SCHEDULED: to be executed later
 *     [*] --> ACCEPTED: to be executed now
 *     SCHEDULED --> ACCEPTED: its time has come
 *     ACCEPTED --> PROCESSING: money booked
 *     PROCESSING --> COMPLETE: settled
 *     PROCESSING --> FAILED: refused, undone
 *     PROCESSING --> CANCELLED: cancelled, undone
 *     SCHEDULED --> FAILED
 *     SCHEDULED --> CANCELLED
 *     ACCEPTED --> FAILED
 *     ACCEPTED --> CANCELLED
 * ```
 */
const changes = {
  SCHEDULED: ['ACCEPTED', 'FAILED', 'CANCELLED'],
  ACCEPTED: ['PROCESSING', 'FAILED', 'CANCELLED'],
  PROCESSING: ['COMPLETE', 'FAILED', 'CANCELLED'],
  COMPLETE: [],
  FAILED: [],
  CANCELLED: [],
} as const satisfies Record<string, readonly string[]>

export type PaymentStatus = keyof typeof changes

export const paymentStatuses = Object.keys(changes) as PaymentStatus[]

const targetsOf = (status: PaymentStatus): readonly string[] => changes[status]

/** From which statuses a payment may become this one. */
export function sourcesOf(to: PaymentStatus): PaymentStatus[] {
  return paymentStatuses.filter((from) => targetsOf(from).includes(to))
}

export function hasEnded(status: PaymentStatus): boolean {
  return targetsOf(status).length === 0
}
