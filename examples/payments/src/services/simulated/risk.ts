import type pg from 'pg'
import { isAtLeast } from '../../domain/money.js'
import type { RiskDecision, RiskService } from '../services.js'
import { giveUpCalls, simulateCall, unlessVoid } from './call.js'

/** From this amount on a person has to approve. */
const MANUAL_APPROVAL_FROM = '250000'

/** A risk service that recognises a repeated call by its key, as a good one does. */
export function simulatedRisk(pool: pg.Pool): RiskService {
  return {
    book: ({ paymentId, amount }, call) =>
      simulateCall(
        pool,
        { service: 'risk', operation: 'bookRisk', paymentId, ...call },
        async ({ callId }, outcome) => {
          const pending = outcome === 'PENDING' || isAtLeast(amount, MANUAL_APPROVAL_FROM)
          const values = [
            callId,
            paymentId,
            call.idempotencyKey,
            amount.amount,
            amount.currency,
            pending ? 'PENDING' : 'APPROVED',
          ]
          return (await pool.query<RiskDecision>(bookText, values)).rows[0]
        },
      ),
    unwind: (paymentId, call) =>
      simulateCall(pool, { service: 'risk', operation: 'unwindRisk', paymentId, ...call }, async () => {
        await pool.query(`${giveUpCalls} and payment_id = $2`, ['bookRisk', paymentId])
        return (await pool.query(unwindText, [paymentId])).rows
      }),
  }
}

const bookText = `
  with ${unlessVoid}
  insert into payments.risk_booking (reference, payment_id, idempotency_key, amount, currency, decision)
  select 'RISK-' || substr(md5($3), 1, 12), $2::uuid, $3, $4::numeric, $5, $6 from called
  on conflict (idempotency_key) do update set idempotency_key = excluded.idempotency_key
  returning reference, decision`

const unwindText = `
  update payments.risk_booking set unwound_at = now() where payment_id = $1 and unwound_at is null`
