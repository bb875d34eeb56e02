import type { Queryable } from 'holdfast'

/** Payer and payee are notified. */
export async function queueNotifications(tx: Queryable, paymentId: string): Promise<void> {
  await tx.query(
    `insert into payments.notification (payment_id, party) values ($1, 'PAYER'), ($1, 'PAYEE') on conflict do nothing`,
    [paymentId],
  )
}

export async function sendNotifications(tx: Queryable, paymentId: string): Promise<void> {
  await tx.query('update payments.notification set sent_at = now() where payment_id = $1 and sent_at is null', [
    paymentId,
  ])
}
