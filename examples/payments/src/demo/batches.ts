import type { Payments } from '../app.js'
import type { DemoOptions } from './arguments.js'

/** What may happen to a payment of the demo. Most are paid; some are retried, refused, or need a person. */
const service = { transientPct: 8, permanentPct: 1, businessPct: 2, timeoutPct: 0.5, minMs: 20, maxMs: 150 }
const level = { businessPct: 0.5, pendingPct: 0.5, timeoutPct: 0.2, minMs: 200, maxMs: 900 }
const behaviour = {
  bookRisk: { ...service, pendingPct: 4 },
  awaitApproval: { businessPct: 20, pendingPct: 20, minMs: 500, maxMs: 2_500 },
  bookFx: service,
  submit: { ...service, transientPct: 2 },
  awaitL1: level,
  awaitL2: level,
  awaitL3: level,
  awaitL4: level,
}

/** The scheduled ones are due after this many seconds, all at the same moment. */
export const WINDOW_AHEAD = 6

/** Payments in both models, and a window of scheduled ones. */
export async function createDemoBatches(payments: Payments, { payments: size, seed }: DemoOptions): Promise<void> {
  const scheduled = Math.floor(size / 4)
  const sequential = Math.ceil((size - scheduled) / 2)
  const stepBased = size - scheduled - sequential
  const executeAt = new Date(Date.now() + WINDOW_AHEAD * 1_000).toISOString()
  const each = [
    { name: 'sequential', payments: sequential, model: 'PROCESS_STEP' },
    { name: 'step-based', payments: stepBased, model: 'STEP_BASED' },
    { name: 'scheduled', payments: scheduled, model: 'PROCESS_STEP', executeAt },
  ]
  for (const batch of each) {
    if (batch.payments > 0) await payments.createBatch({ ...batch, seed: `${seed} ${batch.name}`, behaviour })
  }
}
