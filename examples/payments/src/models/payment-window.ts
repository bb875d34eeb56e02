import { defineDispatch, processTarget } from 'holdfast'
import type { Pace } from '../pace.js'
import type { ScheduledPaymentProcess } from './payment-process.js'

/**
 * Scheduled payments between their two phases: rows that wait for their time, and are then released at a rate that
 * operators change, or switch off, meanwhile. The pace is what the configuration begins with.
 */
export function paymentWindow(ScheduledPayment: ScheduledPaymentProcess, { window }: Pace) {
  return defineDispatch('payments', 'ScheduledPayment', { target: processTarget(ScheduledPayment), settings: window })
}

export type PaymentWindow = ReturnType<typeof paymentWindow>
