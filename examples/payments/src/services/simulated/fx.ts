import { Decimal } from 'decimal.js'
import type pg from 'pg'
import type { Currency } from '../../domain/currency.js'
import { convert } from '../../domain/money.js'
import type { FxService } from '../services.js'
import { simulateCall } from './call.js'

/** What one unit is worth in dollars. */
const worth: Readonly<Record<Currency, string>> = {
  BHD: '2.6525',
  CHF: '1.1245',
  EUR: '1.0850',
  GBP: '1.2710',
  JPY: '0.0064',
  USD: '1',
}

export function rateOf(sell: Currency, buy: Currency): string {
  return new Decimal(worth[sell]).dividedBy(worth[buy]).toFixed(6)
}

/** An FX service that recognises repetitions by their key. */
export function simulatedFx(pool: pg.Pool): FxService {
  return {
    book: ({ paymentId, sell, buy, valueDate }, call) =>
      simulateCall(pool, { service: 'fx', operation: 'bookFx', paymentId, ...call }, async () => {
        const rate = rateOf(sell.currency, buy)
        const bought = convert(sell, rate, buy)
        const { rows } = await pool.query<{ contract_id: string }>(bookText, [
          paymentId,
          call.idempotencyKey,
          sell.amount,
          sell.currency,
          bought.amount,
          bought.currency,
          rate,
          valueDate,
        ])
        return { contractId: rows[0]?.contract_id ?? '', rate, bought }
      }),
    unwind: (paymentId, call) =>
      simulateCall(pool, { service: 'fx', operation: 'unwindFx', paymentId, ...call }, async () => {
        await pool.query(
          'update payments.fx_contract set unwound_at = now() where payment_id = $1 and unwound_at is null',
          [paymentId],
        )
      }),
  }
}

const bookText = `
  insert into payments.fx_contract (
    payment_id, idempotency_key, sold, sold_currency, bought, bought_currency, rate, value_date
  )
  values ($1, $2, $3, $4, $5, $6, $7, $8)
  on conflict (idempotency_key) do update set idempotency_key = excluded.idempotency_key
  returning contract_id`
