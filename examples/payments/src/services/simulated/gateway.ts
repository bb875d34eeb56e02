import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import type { PaymentGateway, Submitted } from '../services.js'
import { giveUpCalls, simulateCall, unlessVoid } from './call.js'

/** A gateway that does not recognise a repeated call: each call is a submission of its own. */
export function simulatedGateway(pool: pg.Pool): PaymentGateway {
  return {
    submit: ({ paymentId, amount }, call) =>
      simulateCall(pool, { service: 'gateway', operation: 'submit', paymentId, ...call }, async ({ callId }) => {
        const reference = `GW-${randomUUID()}`
        const { rows } = await pool.query<Submitted>(submitText, [
          callId,
          reference,
          paymentId,
          call.idempotencyKey,
          amount.amount,
          amount.currency,
        ])
        return rows[0]
      }),
    async inquire({ idempotencyKey }) {
      // From here on a call that has not arrived has no effect: `notDone` is certain.
      await pool.query(`${giveUpCalls} and idempotency_key = $2`, ['submit', idempotencyKey])
      const { rows } = await pool.query<Submitted>(
        'select reference from payments.gateway_submission where idempotency_key = $1 order by submitted_at limit 1',
        [idempotencyKey],
      )
      const [done] = rows
      return done ? { done } : 'notDone'
    },
    recall: (paymentId, call) =>
      simulateCall(pool, { service: 'gateway', operation: 'recall', paymentId, ...call }, async () => {
        await pool.query(`${giveUpCalls} and payment_id = $2`, ['submit', paymentId])
        return (await pool.query(recallText, [paymentId])).rows
      }),
  }
}

/** The network behind it has the payment from now on. */
const submitText = `
  with ${unlessVoid}
  insert into payments.gateway_submission (
    reference, payment_id, idempotency_key, amount, currency, next_level, next_answer_at
  )
  select $2, $3::uuid, $4, $5::numeric, $6, 'L1', now() from called
  returning reference`

const recallText = `
  update payments.gateway_submission
  set recalled_at = now(), next_answer_at = null
  where payment_id = $1 and recalled_at is null`
