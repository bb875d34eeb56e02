import type pg from 'pg'
import { inTransaction } from '../database/transaction.js'
import { type ExecutionModel, type Level, levelAfter } from '../domain/payment.js'
import { type Addressee, type Answering, addresseeColumns } from './answering.js'

interface PendingItem {
  readonly id: string
  readonly paymentId: string
  readonly model: ExecutionModel
  readonly requestedAt: Date
}

interface PendingApproval extends PendingItem {
  readonly debitAmount: string
  readonly debitCurrency: string
  readonly debitAccount: string
}

interface PendingNetworkResponse extends PendingItem {
  readonly level: Level
}

/** Who decided, and their comment. */
interface Resolution {
  readonly by: string
  readonly comment?: string
}

type ApprovalDecision = Resolution & { readonly decision: 'APPROVED' | 'DECLINED' }

type NetworkDecision = Resolution &
  (
    | { readonly outcome: 'CONFIRMED'; readonly reference: string }
    | { readonly outcome: 'REJECTED'; readonly code: string; readonly message: string }
  )

/** `resolved`: another person has decided before. */
export type Resolved = 'done' | 'resolved' | 'unknown'

/** Decisions that wait for people. */
export interface Pending {
  approvals(): Promise<PendingApproval[]>
  decideApproval(id: string, decision: ApprovalDecision): Promise<Resolved>
  networkResponses(): Promise<PendingNetworkResponse[]>
  answerNetwork(id: string, decision: NetworkDecision): Promise<Resolved>
  /** Leaves the response of a level to people. */
  requestNetworkResponse(paymentId: string, level: Level): Promise<void>
}

/** One transaction resolves the row and responds to the payment: both, or neither, and only once. */
export function createPending(pool: pg.Pool, answering: Answering): Pending {
  async function resolve<Row extends Addressee>(
    text: string,
    table: string,
    values: readonly unknown[],
    answer: (row: Row, tx: pg.PoolClient) => Promise<void>,
  ): Promise<Resolved> {
    return inTransaction(pool, async (tx) => {
      const { rows } = await tx.query<Row>(text, [...values])
      const [row] = rows
      if (row) {
        await answer(row, tx)
        return 'done'
      }
      const { rowCount } = await tx.query(`select from payments.${table} where id = $1`, [values[0]])
      return rowCount === 0 ? 'unknown' : 'resolved'
    })
  }

  return {
    approvals: async () => (await pool.query<PendingApproval>(approvalsText)).rows,
    networkResponses: async () => (await pool.query<PendingNetworkResponse>(responsesText)).rows,
    decideApproval: (id, { decision, by, comment }) =>
      resolve<Addressee>(decideText, 'pending_approval', [id, decision, by, comment ?? null], (to, transaction) =>
        answering.approval(to, { decision, by, ...(comment === undefined ? {} : { comment }) }, { transaction }),
      ),
    answerNetwork: (id, decision) =>
      resolve<Addressee & { level: Level }>(
        answerText,
        'pending_network_response',
        [id, decision.outcome, decision.by, decision.comment ?? null],
        async ({ level, ...to }, transaction) => {
          await answering.network(to, toAnswer(level, decision), { transaction })
          const next = decision.outcome === 'CONFIRMED' ? levelAfter(level) : undefined
          if (next) await transaction.query(goOnText, [to.paymentId, next])
        },
      ),
    async requestNetworkResponse(paymentId, level) {
      await pool.query(requestText, [paymentId, level])
    },
  }
}

function toAnswer(level: Level, decision: NetworkDecision) {
  if (decision.outcome === 'CONFIRMED') return { level, outcome: decision.outcome, reference: decision.reference }
  return { level, outcome: decision.outcome, code: decision.code, message: decision.message }
}

const approvalsText = `
  select approval.id, payment_id as "paymentId", approval.model, requested_at as "requestedAt",
    debit_amount::text as "debitAmount", debit_currency as "debitCurrency", debit_account as "debitAccount"
  from payments.pending_approval as approval
  join payments.payment on payment.id = approval.payment_id
  where approval.status = 'PENDING'
  order by requested_at
  limit 200`

const responsesText = `
  select id, payment_id as "paymentId", model, level, requested_at as "requestedAt"
  from payments.pending_network_response
  where status = 'PENDING'
  order by requested_at
  limit 200`

const decideText = `
  update payments.pending_approval as approval
  set status = $2, resolved_by = $3, comment = $4, resolved_at = now(), simulate_at = null
  from payments.payment
  where approval.id = $1 and approval.status = 'PENDING' and payment.id = approval.payment_id
  returning ${addresseeColumns}`

const answerText = `
  update payments.pending_network_response as response
  set status = $2, resolved_by = $3, comment = $4, resolved_at = now()
  from payments.payment
  where response.id = $1 and response.status = 'PENDING' and payment.id = response.payment_id
  returning response.level, ${addresseeColumns}`

/** The network continues with the next level. */
const goOnText = `
  update payments.gateway_submission
  set next_level = $2, next_answer_at = now()
  where payment_id = $1 and recalled_at is null`

const requestText = `
  insert into payments.pending_network_response (payment_id, model, level)
  select id, model, $2 from payments.payment where id = $1
  on conflict (payment_id, level) do nothing`
