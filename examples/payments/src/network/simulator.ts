import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Outcome } from '../behaviour/behaviour.js'
import { type Rolled, roll, rollLevel, type World, worldColumns } from '../behaviour/world.js'
import { type Level, levelAfter } from '../domain/payment.js'
import type { NetworkAnswer } from '../models/state.js'
import { type Addressee, type Answering, addresseeColumns } from './answering.js'
import type { Pending } from './pending.js'

/** The world outside: approvers, and the network that confirms what was submitted. Stops when it is asked to. */
export interface Simulator {
  /** One cycle; answers how many it has dealt with. */
  cycle(): Promise<number>
  stop(): Promise<void>
}

interface Options {
  readonly pool: pg.Pool
  readonly answering: Answering
  readonly pending: Pending
  /** Between two cycles: 1 s unless given. */
  readonly everyMs?: number
  readonly onTrouble?: (error: unknown) => void
}

interface DueConfirmation extends Addressee, World {
  readonly reference: string
  readonly level: Level
}

interface DueApproval extends World {
  readonly id: string
  readonly waitedMs: number
}

const AT_ONCE = 1_000

/**
 * Starts the simulated world. Its memory is in the database: killed and started again it goes on where it was,
 * and an answer that it gives twice is heard once.
 */
export function startSimulator({ pool, answering, pending, everyMs = 1_000, onTrouble }: Options): Simulator {
  const ending = new AbortController()

  async function answerLevels(): Promise<number> {
    const { rows } = await pool.query<DueConfirmation>(dueText, [AT_ONCE])
    await Promise.all(rows.map((due) => answerLevel(due, rollLevel(due, due.level).outcome)))
    const next = rows.map((due) => nextOf(due))
    await pool.query(planText, [
      rows.map(({ reference }) => reference),
      rows.map(({ level }) => level),
      next.map(({ level }) => level),
      next.map(({ inMs }) => inMs),
    ])
    return rows.length
  }

  async function answerLevel(due: DueConfirmation, outcome: Outcome): Promise<void> {
    if (outcome === 'pending') await pending.requestNetworkResponse(due.paymentId, due.level)
    else if (outcome !== 'timeout') await answering.network(due, toAnswer(due, outcome))
  }

  async function decideApprovals(): Promise<number> {
    const { rows } = await pool.query<DueApproval>(approvalsText, [AT_ONCE])
    const decided = rows.map(async (due) => {
      const { outcome, durationMs } = roll(due, 'awaitApproval')
      if (durationMs <= due.waitedMs) await decideApproval(due.id, outcome)
    })
    await Promise.all(decided)
    return rows.length
  }

  async function decideApproval(id: string, outcome: Outcome): Promise<void> {
    if (outcome === 'pending' || outcome === 'timeout') {
      await pool.query('update payments.pending_approval set simulate_at = null where id = $1', [id])
      return
    }
    const decision = outcome === 'success' ? 'APPROVED' : 'DECLINED'
    await pending.decideApproval(id, { decision, by: 'simulator', comment: 'as the dice have it' })
  }

  const cycle = async () => (await answerLevels()) + (await decideApprovals())

  async function run(): Promise<void> {
    while (!ending.signal.aborted) {
      await cycle().catch((error: unknown) => onTrouble?.(error))
      await sleep(everyMs, undefined, { signal: ending.signal }).catch(() => undefined)
    }
  }

  const running = run()
  return {
    cycle,
    async stop() {
      ending.abort()
      await running
    },
  }
}

/** After a confirmation the next level is on its way; after anything else nothing more comes by itself. */
function nextOf(due: DueConfirmation): { readonly level: Level | null; readonly inMs: number | null } {
  const next = rollLevel(due, due.level).outcome === 'success' ? levelAfter(due.level) : undefined
  if (!next) return { level: null, inMs: null }
  const { durationMs }: Rolled = rollLevel(due, next)
  return { level: next, inMs: durationMs }
}

const codes: Readonly<Partial<Record<Outcome, string>>> = {
  permanent: 'PERM_ERROR',
  transient: 'TRANS_ERROR',
  business: 'BIZ_ERROR',
}

function toAnswer({ level, reference }: DueConfirmation, outcome: Outcome): NetworkAnswer {
  const code = codes[outcome]
  if (!code) return { level, outcome: 'CONFIRMED', reference: `${level}-${reference.slice(3, 11)}` }
  return { level, outcome: 'REJECTED', code, message: `the network refused with ${code}` }
}

const dueText = `
  select submission.reference, submission.next_level as level, ${addresseeColumns}, ${worldColumns}
  from payments.gateway_submission as submission
  join payments.payment on payment.id = submission.payment_id
  left join payments.batch on batch.id = payment.batch_id
  where submission.next_answer_at <= now()
  order by submission.next_answer_at
  limit $1`

/** Guarded by the level that was answered: a recall, or another simulator, may have come first. */
const planText = `
  update payments.gateway_submission as submission
  set next_level = planned.next_level, next_answer_at = now() + planned.in_ms * interval '1 ms'
  from unnest($1::text[], $2::text[], $3::text[], $4::int[]) as planned (reference, level, next_level, in_ms)
  where submission.reference = planned.reference
    and submission.next_level = planned.level
    and submission.recalled_at is null`

const approvalsText = `
  select approval.id, ${worldColumns},
    (extract(epoch from now() - approval.requested_at) * 1000)::float8 as "waitedMs"
  from payments.pending_approval as approval
  join payments.payment on payment.id = approval.payment_id
  left join payments.batch on batch.id = payment.batch_id
  where approval.status = 'PENDING' and approval.simulate_at <= now()
  order by approval.requested_at
  limit $1`
