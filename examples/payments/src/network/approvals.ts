import type { Queryable } from 'holdfast'

/** Puts a payment before the people who approve; asked again, it is there once. */
export async function requestApproval(tx: Queryable, paymentId: string): Promise<void> {
  await tx.query(requestText, [paymentId])
}

/** Where the batch says how approvals go, the simulator answers; anything else is for people. */
const requestText = `
  insert into payments.pending_approval (payment_id, model, simulate_at)
  select payment.id, payment.model, case when batch.behaviour ? 'awaitApproval' then now() end
  from payments.payment
  left join payments.batch on batch.id = payment.batch_id
  where payment.id = $1
  on conflict (payment_id) do nothing`
