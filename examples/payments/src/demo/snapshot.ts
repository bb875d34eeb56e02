import type { Holdfast } from 'holdfast'
import type { Payments } from '../app.js'
import type { PaymentStatus } from '../domain/status.js'
import { PAYMENT, SCHEDULED_PAYMENT } from '../models/course.js'
import type { PaymentWindow } from '../models/payment-window.js'
import { type BatchProgress, batchProgress } from '../submission/progress.js'

/** The state of the demo at one moment. */
export interface Snapshot {
  readonly payments: Readonly<Partial<Record<PaymentStatus, number>>>
  readonly total: number
  readonly ended: number
  /** Who payments wait for, and how many of them. */
  readonly waiting: readonly { readonly who: string; readonly n: number }[]
  readonly batches: readonly BatchProgress[]
  /** The window of scheduled payments; undefined if nothing was ever scheduled. */
  readonly window: Window | undefined
}

/** How far the release of scheduled payments has come. */
export interface Window {
  readonly enabled: boolean
  readonly ready: number
  /** Released, and not ended yet. */
  readonly dispatched: number
  readonly completed: number
  readonly failed: number
  /** What is released per second: as configured, and as measured in the last minute. */
  readonly configuredPerSecond: number
  readonly measuredPerSecond: number | null
}

export async function takeSnapshot({ pool, hf, definitions }: Payments): Promise<Snapshot> {
  const [counts, waits, batches, commands, sequential, scheduled, window] = await Promise.all([
    pool.query<{ status: PaymentStatus; n: number; ended: boolean }>(countText),
    pool.query<{ who: string; n: number }>(waitText),
    batchProgress(pool),
    hf.trouble.count({ model: 'commands', domain: 'payments' }),
    hf.trouble.count({ model: 'processes', ...PAYMENT }),
    hf.trouble.count({ model: 'processes', ...SCHEDULED_PAYMENT }),
    readWindow(hf, definitions.PaymentWindow),
  ])
  const sum = (rows: readonly { n: number }[]) => rows.reduce((total, { n }) => total + n, 0)
  return {
    payments: Object.fromEntries(counts.rows.map(({ status, n }) => [status, n])),
    total: sum(counts.rows),
    ended: sum(counts.rows.filter(({ ended }) => ended)),
    waiting: [...waits.rows, { who: 'an operator', n: commands + sequential + scheduled }].filter(({ n }) => n > 0),
    batches: batches.filter(({ ended, size, createdAt }) => ended < size || Date.now() - createdAt.getTime() < 600_000),
    window,
  }
}

async function readWindow(hf: Holdfast, window: PaymentWindow): Promise<Window | undefined> {
  if (!(await hf.dispatch.definitions()).some(({ domain, type }) => `${domain}/${type}` === window.name))
    return undefined
  const [plan, depth] = await Promise.all([hf.dispatch.plan(window, { minutes: 1 }), hf.dispatch.depth(window)])
  return {
    enabled: plan.enabled,
    ready: depth.READY,
    dispatched: depth.CLAIMED + depth.DISPATCHED,
    completed: depth.COMPLETED,
    failed: depth.FAILED + depth.DEAD_LETTER,
    ...plan.rate,
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
