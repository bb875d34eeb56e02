import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { rollLevel } from '../../behaviour/world.js'
import type { PaymentGateway, Submitted } from '../services.js'
import { simulateCall } from './call.js'

/** A gateway that recognises nothing: each call that comes through is a submission of its own. */
export function simulatedGateway(pool: pg.Pool): PaymentGateway {
  return {
    submit: ({ paymentId, amount }, call) =>
      simulateCall(pool, { service: 'gateway', operation: 'submit', paymentId, ...call }, async (_, world) => {
        const { durationMs } = rollLevel(world, 'L1')
        const reference = `GW-${randomUUID()}`
        await pool.query(submitText, [
          reference,
          paymentId,
          call.idempotencyKey,
          amount.amount,
          amount.currency,
          durationMs,
        ])
        return { reference }
      }),
    async inquire({ idempotencyKey }) {
      const { rows } = await pool.query<Submitted>(
        'select reference from payments.gateway_submission where idempotency_key = $1 order by submitted_at limit 1',
        [idempotencyKey],
      )
      const [done] = rows
      return done ? { done } : 'notDone'
    },
    recall: (paymentId, call) =>
      simulateCall(pool, { service: 'gateway', operation: 'recall', paymentId, ...call }, async () => {
        await pool.query(recallText, [paymentId])
      }),
  }
}

/** The network behind it has the payment from now on. */
const submitText = `
  insert into payments.gateway_submission (
    reference, payment_id, idempotency_key, amount, currency, next_level, next_answer_at
  )
  values ($1, $2, $3, $4, $5, 'L1', now() + $6 * interval '1 ms')`

const recallText = `
  update payments.gateway_submission
  set recalled_at = now(), next_answer_at = null
  where payment_id = $1 and recalled_at is null`
