import type { Bank } from './payment.js'

/** A bank that books once per key, as real ones do, and knows its books. */
export function honestBank(): Bank & {
  readonly booked: ReadonlyMap<string, number>
  readonly submitted: ReadonlySet<string>
} {
  const booked = new Map<string, number>()
  const submitted = new Set<string>()
  return {
    booked,
    submitted,
    async book(_payment, cents, idempotencyKey) {
      booked.set(idempotencyKey, cents)
      return { reference: idempotencyKey }
    },
    async unbook(reference) {
      booked.delete(reference)
    },
    async submit(payment, idempotencyKey) {
      submitted.add(idempotencyKey)
      return `receipt of ${payment}`
    },
  }
}
