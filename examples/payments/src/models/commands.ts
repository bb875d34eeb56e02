import { defineCommand } from 'holdfast'
import { z } from 'zod'
import type { Pace } from '../pace.js'
import { FxState, PaymentState, RiskState } from './state.js'

/** The commands of the step-based payment; any service that replies to the queue could handle them, in any language. */
export function paymentCommands(pace: Pace) {
  const data = PaymentState
  const only = z.object({ paymentId: z.uuid() })
  const tried = ({ maxAttempts, retryDelay }: Pace['risk']) => ({
    retry: { maxAttempts, delay: retryDelay, factor: 1 },
    timeout: pace.serviceTimeout,
  })
  const undoing = { data: only, retry: { maxAttempts: 3, delay: pace.risk.retryDelay, factor: 1 } }
  return {
    Begin: defineCommand('payments', 'Begin', { data: only }),
    BookRisk: defineCommand('payments', 'BookRisk', { data, result: RiskState, ...tried(pace.risk) }),
    BookFx: defineCommand('payments', 'BookFx', { data, result: FxState, ...tried(pace.fx) }),
    // Its handler calls the gateway once; the other attempts find out the outcome of that call.
    Submit: defineCommand('payments', 'Submit', {
      data,
      result: z.object({ reference: z.string() }),
      ...tried(pace.gateway),
      retry: { maxAttempts: 5 },
    }),
    Complete: defineCommand('payments', 'Complete', { data }),
    Recall: defineCommand('payments', 'Recall', undoing),
    UnwindFx: defineCommand('payments', 'UnwindFx', undoing),
    UnwindRisk: defineCommand('payments', 'UnwindRisk', undoing),
    GiveBack: defineCommand('payments', 'GiveBack', undoing),
  }
}

export type PaymentCommands = ReturnType<typeof paymentCommands>
