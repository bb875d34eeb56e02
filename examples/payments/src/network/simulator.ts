import { createSimulator, type SimulatedAnswer } from '@holdfast/testing'
import type pg from 'pg'
import { diceOf, rollKeyOf, type World, worldColumns } from '../behaviour/world.js'
import { type Level, levelAfter } from '../domain/payment.js'
import type { NetworkAnswer } from '../models/state.js'
import { type Addressee, type Answering, addresseeColumns } from './answering.js'
import type { Pending } from './pending.js'

/** The outside world: approvers, and the network that confirms submissions. */
export interface Simulator {
  stop(): Promise<void>
}

interface Options {
  readonly pool: pg.Pool
  readonly answering: Answering
  readonly pending: Pending
  /** Between two cycles. Default: 1 s. */
  readonly everyMs?: number
  readonly onTrouble?: (error: unknown) => void
}

interface AwaitedConfirmation extends Addressee, World {
  readonly reference: string
  readonly level: Level
}

interface AwaitedApproval extends World {
  readonly id: string
}

const LOOKS_AT = 2_000
const ANSWERS_AT_ONCE = 50

/**
 * Starts the simulated world: two simulators of the testing kit. Open waits are in the database,
 * and their outcomes depend on the seed: after a crash the simulators continue where they stopped, and a response that
 * they send twice is applied once.
 */
export function startSimulator(options: Options): Simulator {
  const simulators = [simulateNetwork(options), simulateApprovers(options)]
  for (const simulator of simulators) simulator.start()
  return {
    async stop() {
      await Promise.all(simulators.map((simulator) => simulator.stop()))
    },
  }
}

function simulateNetwork({ pool, answering, pending, ...options }: Options) {
  return createSimulator<AwaitedConfirmation>({
    ...pacing(options),
    find: async () => (await pool.query<AwaitedConfirmation>(confirmationsText, [LOOKS_AT])).rows,
    key: ({ reference, level }) => `${reference}/${level}`,
    rollKey: ({ ordinal, level }) => rollKeyOf(ordinal, `await${level}`),
    behaviour: (awaited) => diceOf(awaited, `await${awaited.level}`),
    async answer(awaited, said) {
      if (said.kind === 'PENDING') await pending.requestNetworkResponse(awaited.paymentId, awaited.level)
      else await answering.network(awaited, toAnswer(awaited, said))
      // After a confirmation the next level follows; after anything else nothing more comes by itself.
      const next = said.kind === 'SUCCESS' ? levelAfter(awaited.level) : undefined
      await pool.query(goOnText, [awaited.reference, awaited.level, next ?? null])
    },
  })
}

function simulateApprovers({ pool, pending, ...options }: Options) {
  return createSimulator<AwaitedApproval>({
    ...pacing(options),
    find: async () => (await pool.query<AwaitedApproval>(approvalsText, [LOOKS_AT])).rows,
    key: ({ id }) => id,
    rollKey: ({ ordinal }) => rollKeyOf(ordinal, 'awaitApproval'),
    behaviour: (awaited) => diceOf(awaited, 'awaitApproval'),
    async answer({ id }, { kind }) {
      if (kind === 'PENDING') await pool.query(leaveText, [id])
      else {
        const decision = kind === 'SUCCESS' ? 'APPROVED' : 'DECLINED'
        await pending.decideApproval(id, { decision, by: 'simulator', comment: 'as the dice have it' })
      }
    },
  })
}

/** A failure is retried in the next cycle, and reported if the caller asks for it. */
function pacing({ everyMs = 1_000, onTrouble }: Pick<Options, 'everyMs' | 'onTrouble'>) {
  return { every: everyMs, atOnce: ANSWERS_AT_ONCE, onError: (error: unknown) => onTrouble?.(error) }
}

function toAnswer(
  { level, reference }: AwaitedConfirmation,
  said: Exclude<SimulatedAnswer, { kind: 'PENDING' }>,
): NetworkAnswer {
  if (said.kind === 'SUCCESS') return { level, outcome: 'CONFIRMED', reference: `${level}-${reference.slice(3, 11)}` }
  return { level, outcome: 'REJECTED', code: said.code, message: `the network refused with ${said.code}` }
}

const confirmationsText = `
  select submission.reference, submission.next_level as level, ${addresseeColumns}, ${worldColumns}
  from payments.gateway_submission as submission
  join payments.payment on payment.id = submission.payment_id
  left join payments.batch on batch.id = payment.batch_id
  where submission.next_answer_at <= now()
  order by submission.next_answer_at
  limit $1`

/** Changes the row only if it still waits for this level: a recall, or another simulator, may have come first. */
const goOnText = `
  update payments.gateway_submission
  set next_level = $3::text, next_answer_at = case when $3::text is not null then now() end
  where reference = $1 and next_level = $2 and recalled_at is null`

const approvalsText = `
  select approval.id, ${worldColumns}
  from payments.pending_approval as approval
  join payments.payment on payment.id = approval.payment_id
  left join payments.batch on batch.id = payment.batch_id
  where approval.status = 'PENDING' and approval.simulate_at <= now()
  order by approval.requested_at
  limit $1`

/** To people. */
const leaveText = 'update payments.pending_approval set simulate_at = null where id = $1'
