import { setTimeout as sleep } from 'node:timers/promises'
import { BusinessError, PermanentError, TransientError } from 'holdfast'
import type pg from 'pg'
import type { Outcome, SimulatedStep } from '../../behaviour/behaviour.js'
import { roll, type World, worldColumns } from '../../behaviour/world.js'
import type { ServiceCall } from '../services.js'

interface SimulatedCall extends ServiceCall {
  readonly service: string
  readonly operation: SimulatedStep
  readonly paymentId: string
}

interface CallRow extends World {
  readonly earlier: number
}

const nowhere: CallRow = { seed: null, ordinal: 0, behaviour: null, earlier: 0 }

/**
 * One call of a simulated service: noted, then as the payment's behaviour and the dice have it. The effect takes place
 * where the call succeeds; and in one half of the calls that time out, as in real life, where the answer is lost and
 * the money is not.
 */
export async function simulateCall<Result>(
  pool: pg.Pool,
  call: SimulatedCall,
  effect: (outcome: Outcome, world: World) => Promise<Result>,
): Promise<Result> {
  const { service, operation, paymentId, idempotencyKey, signal } = call
  const { rows } = await pool.query<CallRow>(noteText, [service, operation, paymentId, idempotencyKey])
  const world = rows[0] ?? nowhere
  const { outcome, durationMs, dice } = roll(world, operation, world.earlier + 1)
  if (durationMs > 0) await sleep(durationMs, undefined, { ...(signal ? { signal } : {}) })
  switch (outcome) {
    case 'permanent':
      throw new PermanentError(`the ${service} service does not understand the request`, { code: 'PERM_ERROR' })
    case 'transient':
      throw new TransientError(`the ${service} service is busy`, { code: 'TRANS_ERROR' })
    case 'business':
      throw new BusinessError(`the ${service} service declined`, { code: `${service.toUpperCase()}_DECLINED` })
    case 'timeout':
      if (dice() < 0.5) await effect('success', world)
      return hang(service, signal)
    default:
      return effect(outcome, world)
  }
}

/** No answer ever comes; the caller's own time limit ends the call. */
function hang(service: string, signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    const giveUp = () => reject(new TransientError(`the ${service} service did not answer`, { code: 'TIMEOUT' }))
    if (!signal || signal.aborted) giveUp()
    else signal.addEventListener('abort', giveUp, { once: true })
  })
}

/** The call before anything else: it is on record also where the caller dies right after it. */
const noteText = `
  with noted as (
    insert into payments.service_call (service, operation, payment_id, idempotency_key) values ($1, $2, $3, $4)
  )
  select
    ${worldColumns},
    (select count(*)::int from payments.service_call where idempotency_key = $4 and operation = $2) as earlier
  from payments.payment
  left join payments.batch on batch.id = payment.batch_id
  where payment.id = $3`
