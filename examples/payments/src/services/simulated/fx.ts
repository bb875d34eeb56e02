import { Decimal } from 'decimal.js'
import type pg from 'pg'
import type { Currency } from '../../domain/currency.js'
import { convert } from '../../domain/money.js'
import type { FxService } from '../services.js'
import { giveUpCalls, simulateCall, unlessVoid } from './call.js'

/** What one unit is worth in dollars. */
const worth: Readonly<Record<Currency, string>> = {
  BHD: '2.6525',
  CHF: '1.1245',
  EUR: '1.0850',
  GBP: '1.2710',
  JPY: '0.0064',
  USD: '1',
}

function rateOf(sell: Currency, buy: Currency): string {
  return new Decimal(worth[sell]).dividedBy(worth[buy]).toFixed(6)
}

/** An FX service that recognises a repeated call by its key. */
export function simulatedFx(pool: pg.Pool): FxService {
  return {
    book: ({ paymentId, sell, buy, valueDate }, call) =>
      simulateCall(pool, { service: 'fx', operation: 'bookFx', paymentId, ...call }, async ({ callId }) => {
        const rate = rateOf(sell.currency, buy)
        const bought = convert(sell, rate, buy)
        const { rows } = await pool.query<{ contract_id: string }>(bookText, [
          callId,
          paymentId,
          call.idempotencyKey,
          sell.amount,
          sell.currency,
          bought.amount,
          bought.currency,
          rate,
          valueDate,
        ])
        return rows[0] && { contractId: rows[0].contract_id, rate, bought }
      }),
    unwind: (paymentId, call) =>
      simulateCall(pool, { service: 'fx', operation: 'unwindFx', paymentId, ...call }, async () => {
        await pool.query(`${giveUpCalls} and payment_id = $2`, ['bookFx', paymentId])
        return (await pool.query(unwindText, [paymentId])).rows
      }),
  }
}

const unwindText = `
  update payments.fx_contract set unwound_at = now() where payment_id = $1 and unwound_at is null`

const bookText = `
  with ${unlessVoid}
  insert into payments.fx_contract (
    payment_id, idempotency_key, sold, sold_currency, bought, bought_currency, rate, value_date
  )
  select $2::uuid, $3, $4::numeric, $5, $6::numeric, $7, $8::numeric, $9::date from called
  on conflict (idempotency_key) do update set idempotency_key = excluded.idempotency_key
  returning contract_id`
