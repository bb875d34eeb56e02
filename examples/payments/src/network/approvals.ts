import type { Queryable } from 'holdfast'

/** Puts a payment on the list of approvals; a second call changes nothing. */
export async function requestApproval(tx: Queryable, paymentId: string): Promise<void> {
  await tx.query(requestText, [paymentId])
}

/** If the batch has a behaviour for approvals, the simulator decides; otherwise people do. */
const requestText = `
  insert into payments.pending_approval (payment_id, model, simulate_at)
  select payment.id, payment.model, case when batch.behaviour ? 'awaitApproval' then now() end
  from payments.payment
  left join payments.batch on batch.id = payment.batch_id
  where payment.id = $1
  on conflict (payment_id) do nothing`
