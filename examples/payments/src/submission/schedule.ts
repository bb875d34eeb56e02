import type { Holdfast, Queryable } from 'holdfast'
import type { Payment } from '../domain/payment.js'
import { InvalidInput } from '../domain/problem.js'
import type { ScheduledPaymentProcess } from '../models/payment-process.js'
import { initialState } from '../models/state.js'
import { insertPayments, type NewPayment } from './payments.js'

/** Releases payments at their time, in the caller's transaction: scheduled if it commits, and not if it does not. */
export interface Schedule {
  add(tx: Queryable, payments: readonly { readonly payment: Payment; readonly executeAt: Date }[]): Promise<void>
}

/** Every payment is a process that begins at its time. */
export function startAtTheirTime(hf: Holdfast, ScheduledPayment: ScheduledPaymentProcess): Schedule {
  return {
    async add(tx, payments) {
      const processes = payments.map(({ payment, executeAt }) => ({
        id: payment.id,
        state: initialState(payment),
        startAt: executeAt,
      }))
      if (processes.length > 0) await hf.startMany(ScheduledPayment, processes, { transaction: tx })
    },
  }
}

type Draft = Omit<NewPayment, 'status' | 'executeAt'>

/**
 * The first phase: validated before, a payment is enriched, the rules are applied, and it is persisted and
 * scheduled in one transaction. What fails on the way schedules nothing.
 */
export async function schedulePayment(
  { schedule }: { readonly schedule: Schedule },
  tx: Queryable,
  draft: Draft,
  executeAt: Date,
): Promise<Payment | undefined> {
  const [payment] = await schedulePayments(schedule, tx, [draft], executeAt)
  return payment
}

export async function schedulePayments(
  schedule: Schedule,
  tx: Queryable,
  drafts: readonly Draft[],
  executeAt: Date,
): Promise<Payment[]> {
  const ready = drafts.map((draft) => applyRules(enrich(draft, executeAt), executeAt))
  const payments = await insertPayments(
    tx,
    ready.map((draft) => ({ ...draft, status: 'SCHEDULED', executeAt })),
  )
  await schedule.add(
    tx,
    payments.map((payment) => ({ payment, executeAt })),
  )
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
