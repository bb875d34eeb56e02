import type { Payment } from '../domain/payment.js'
import { PAYMENT, SCHEDULED_PAYMENT } from '../models/course.js'
import { STEP_PAYMENT } from '../models/payment-manager.js'

/** The definition that executes a payment. */
export function processOf({ model, executeAt }: Pick<Payment, 'model' | 'executeAt'>) {
  if (model === 'STEP_BASED') return STEP_PAYMENT
  return executeAt === null ? PAYMENT : SCHEDULED_PAYMENT
}
