import type pg from 'pg'
import { isAtLeast } from '../../domain/money.js'
import type { RiskDecision, RiskService } from '../services.js'
import { simulateCall } from './call.js'

/** From here on a person has a look. */
export const MANUAL_APPROVAL_FROM = '250000'

/** A risk service that recognises repetitions by their key, as a good one does. */
export function simulatedRisk(pool: pg.Pool): RiskService {
  return {
    book: ({ paymentId, amount }, call) =>
      simulateCall(pool, { service: 'risk', operation: 'bookRisk', paymentId, ...call }, async (outcome) => {
        const pending = outcome === 'pending' || isAtLeast(amount, MANUAL_APPROVAL_FROM)
        const values = [
          paymentId,
          call.idempotencyKey,
          amount.amount,
          amount.currency,
          pending ? 'PENDING' : 'APPROVED',
        ]
        const { rows } = await pool.query<RiskDecision>(bookText, values)
        const [booked] = rows
        if (!booked) throw new Error(`no risk booking for ${paymentId}`)
        return booked
      }),
    unwind: (paymentId, call) =>
      simulateCall(pool, { service: 'risk', operation: 'unwindRisk', paymentId, ...call }, async () => {
        await pool.query(unwindText, [paymentId])
      }),
  }
}

const bookText = `
  insert into payments.risk_booking (reference, payment_id, idempotency_key, amount, currency, decision)
  values ('RISK-' || substr(md5($2), 1, 12), $1, $2, $3, $4, $5)
  on conflict (idempotency_key) do update set idempotency_key = excluded.idempotency_key
  returning reference, decision`

const unwindText = `
  update payments.risk_booking set unwound_at = now() where payment_id = $1 and unwound_at is null`
