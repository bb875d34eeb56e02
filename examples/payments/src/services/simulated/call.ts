import { setTimeout as sleep } from 'node:timers/promises'
import type { Outcome } from '@holdfast/testing'
import { BusinessError, PermanentError, TransientError } from 'holdfast'
import type pg from 'pg'
import type { SimulatedStep } from '../../behaviour/behaviour.js'
import { roll, tookEffect, type World, worldColumns } from '../../behaviour/world.js'
import type { ServiceCall } from '../services.js'

interface SimulatedCall extends ServiceCall {
  readonly service: string
  readonly operation: SimulatedStep
  readonly paymentId: string
}

/** A call that is on record: what its effect has to know. */
export interface NotedCall extends World {
  readonly callId: string
  readonly earlier: number
}

/**
 * One call of a simulated service: recorded, then executed as the payment's behaviour and the seed say. The effect takes place
 * if the call succeeds, and in one half of the calls that time out, as in real life, where the response is lost and
 * the money is not.
 */
export async function simulateCall<Result>(
  pool: pg.Pool,
  call: SimulatedCall,
  effect: (noted: NotedCall, outcome: Outcome) => Promise<Result | undefined>,
): Promise<Result> {
  const { service, operation, paymentId, idempotencyKey, signal } = call
  const { rows } = await pool.query<NotedCall>(noteText, [service, operation, paymentId, idempotencyKey])
  const [noted] = rows
  if (!noted) throw new PermanentError(`the ${service} service knows no payment ${paymentId}`, { code: 'NO_PAYMENT' })
  const nth = noted.earlier + 1
  const { outcome, durationMs } = roll(noted, operation, nth)
  if (durationMs > 0) await sleep(durationMs, undefined, signal ? { signal } : {})
  refuse(service, outcome)
  if (outcome === 'TIMEOUT') {
    if (tookEffect(noted, operation, nth)) await effect(noted, 'SUCCESS')
    return hang(service, signal)
  }
  const result = await effect(noted, outcome)
  if (result !== undefined) return result
  throw new TransientError(`nobody waits for this call of the ${service} service any more`, { code: 'GIVEN_UP' })
}

/** The failures that the service reports. */
function refuse(service: string, outcome: Outcome): void {
  if (outcome === 'PERMANENT') {
    throw new PermanentError(`the ${service} service does not understand the request`, { code: 'PERM_ERROR' })
  }
  if (outcome === 'TRANSIENT') throw new TransientError(`the ${service} service is busy`, { code: 'TRANS_ERROR' })
  if (outcome === 'BUSINESS') {
    throw new BusinessError(`the ${service} service declined`, { code: `${service.toUpperCase()}_DECLINED` })
  }
}

/** No response ever comes; the caller's own time limit ends the call. */
function hang(service: string, signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    const giveUp = () => reject(new TransientError(`the ${service} service did not answer`, { code: 'TIMEOUT' }))
    if (!signal || signal.aborted) giveUp()
    else signal.addEventListener('abort', giveUp, { once: true })
  })
}

/**
 * Begins every statement that has an effect: none for a call that was abandoned meanwhile. A service that is asked about
 * a call, or told to undo it, before the call has arrived, must not execute it later.
 */
export const unlessVoid = `
  called as (
    update payments.service_call set effective_at = now() where id = $1 and void_at is null returning id
  )`

/** Calls that have not had their effect yet will have none. */
export const giveUpCalls = `
  update payments.service_call set void_at = now() where operation = $1 and effective_at is null and void_at is null`

/** Records the call before anything else, so that it is on record also if the caller dies right after it. */
const noteText = `
  with noted as (
    insert into payments.service_call (service, operation, payment_id, idempotency_key) values ($1, $2, $3, $4)
    returning id
  )
  select
    (select id from noted) as "callId", ${worldColumns},
    (select count(*)::int from payments.service_call where idempotency_key = $4 and operation = $2) as earlier
  from payments.payment
  left join payments.batch on batch.id = payment.batch_id
  where payment.id = $3`
