import type { Holdfast, Queryable } from 'holdfast'
import type { Payment } from '../domain/payment.js'
import { InvalidInput } from '../domain/problem.js'
import type { Definitions } from '../models/definitions.js'
import { initialState } from '../models/state.js'
import { insertPayments, type NewPayment } from './payments.js'

interface SchedulingParts {
  readonly hf: Holdfast
  readonly definitions: Pick<Definitions, 'PaymentWindow'>
}

type Draft = Omit<NewPayment, 'status' | 'executeAt'>

/**
 * The first phase: validated before, a payment is enriched, the rules are applied, and it is persisted and
 * scheduled in the caller's transaction. If anything fails, nothing is scheduled. Until its time the payment is only rows.
 */
export async function schedulePayment(
  parts: SchedulingParts,
  tx: Queryable,
  draft: Draft,
  executeAt: Date,
): Promise<Payment | undefined> {
  const [payment] = await schedulePayments(parts, tx, [draft], executeAt)
  return payment
}

export async function schedulePayments(
  { hf, definitions }: SchedulingParts,
  tx: Queryable,
  drafts: readonly Draft[],
  executeAt: Date,
): Promise<Payment[]> {
  const ready = drafts.map((draft) => applyRules(enrich(draft, executeAt), executeAt))
  const payments = await insertPayments(
    tx,
    ready.map((draft) => ({ ...draft, status: 'SCHEDULED', executeAt })),
  )
  const items = payments.map((payment) => ({
    key: payment.id,
    context: initialState(payment),
    startAt: executeAt,
  }))
  await hf.schedule(definitions.PaymentWindow, items, { transaction: tx })
  return payments
}

const HOUR = 3_600_000

/** A cut-off is counted from the execution, not from the day the payment was ordered. */
function enrich(draft: Draft, executeAt: Date): Draft {
  const cutoffAt = new Date(Math.max(draft.cutoffAt.getTime(), executeAt.getTime() + 4 * HOUR))
  return { ...draft, cutoffAt }
}

function applyRules(draft: Draft, executeAt: Date): Draft {
  if (draft.model !== 'PROCESS_STEP') {
    throw new InvalidInput([{ field: 'model', detail: 'of a scheduled payment must be PROCESS_STEP' }])
  }
  if (draft.valueDate < executeAt.toISOString().slice(0, 10)) {
    throw new InvalidInput([{ field: 'executeAt', detail: 'lies behind the value date' }])
  }
  return draft
}
