import { type FailureKind, failureKind } from '../kernel/failure/failure-errors.js'
import type { RecordedFailure } from './history.js'

/**
 * Thrown into `execute` by a call with `onFailure: 'throw'` that has failed for good. Your code may try another way; if
 * it lets the error pass, the process is compensated after a business failure and needs a person after any other.
 *
 * @example
 * try {
 *   await ctx.step('primary', payByCard, { onFailure: 'throw' })
 * } catch (error) {
 *   // It is unknown whether the card was charged: paying another way might pay twice.
 *   if (!(error instanceof StepFailed) || error.outcome === 'unknown') throw error
 *   await ctx.step('fallback', payByTransfer)
 * }
 */
export class StepFailed extends Error {
  override readonly name = 'StepFailed'
  readonly [failureKind]: FailureKind
  readonly step: string
  readonly code: string
  readonly details: unknown
  /** `refused`: nothing was done. `unknown`: the call may have had its effect. */
  readonly outcome: 'refused' | 'unknown'

  constructor(step: string, { kind, code, message, details }: RecordedFailure, outcome: 'refused' | 'unknown') {
    super(`${step}: ${message}`)
    this[failureKind] = kind === 'BUSINESS' ? 'BUSINESS' : 'PERMANENT'
    this.step = step
    this.code = code
    this.details = details
    this.outcome = outcome
  }
}
