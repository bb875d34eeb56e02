import type { Payments } from '../app.js'
import type { PaymentStatus } from '../domain/status.js'
import { type BatchProgress, batchProgress } from '../submission/progress.js'

/** What there is to see at one moment. */
export interface Snapshot {
  readonly payments: Readonly<Partial<Record<PaymentStatus, number>>>
  readonly total: number
  readonly ended: number
  /** Who has to do something, and for how many. */
  readonly waiting: readonly { readonly who: string; readonly n: number }[]
  readonly batches: readonly BatchProgress[]
}

export async function takeSnapshot({ pool, hf }: Payments): Promise<Snapshot> {
  const [counts, waits, batches, commands, processes] = await Promise.all([
    pool.query<{ status: PaymentStatus; n: number; ended: boolean }>(countText),
    pool.query<{ who: string; n: number }>(waitText),
    batchProgress(pool),
    hf.troubleshooting.count({ domain: 'payments' }),
    hf.processes.troubles.count({ domain: 'payments', type: 'Payment' }),
  ])
  const sum = (rows: readonly { n: number }[]) => rows.reduce((total, { n }) => total + n, 0)
  return {
    payments: Object.fromEntries(counts.rows.map(({ status, n }) => [status, n])),
    total: sum(counts.rows),
    ended: sum(counts.rows.filter(({ ended }) => ended)),
    waiting: [...waits.rows, { who: 'an operator', n: commands + processes }].filter(({ n }) => n > 0),
    batches: batches.filter(({ ended, size, createdAt }) => ended < size || Date.now() - createdAt.getTime() < 600_000),
  }
}

const countText = `
  select status, count(*)::int as n, status in ('COMPLETE', 'FAILED', 'CANCELLED') as ended
  from payments.payment
  group by status
  order by array_position(array['SCHEDULED', 'ACCEPTED', 'PROCESSING', 'COMPLETE', 'FAILED', 'CANCELLED'], status)`

const waitText = `
  select 'their time' as who, count(*)::int as n from payments.payment where status = 'SCHEDULED'
  union all
  select 'a worker', count(*)::int from payments.payment where status = 'ACCEPTED'
  union all
  select 'an approver', count(*)::int from payments.pending_approval where status = 'PENDING'
  union all
  select 'network ' || level, count(submission.reference)::int
  from unnest(array['L1', 'L2', 'L3', 'L4']) with ordinality as levels (level, place)
  left join payments.gateway_submission as submission
    on submission.next_level = level and submission.next_answer_at is not null
  group by level
  union all
  select 'people at the network', count(*)::int from payments.pending_network_response where status = 'PENDING'`
