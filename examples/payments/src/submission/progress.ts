import type pg from 'pg'
import type { ExecutionModel } from '../domain/payment.js'
import type { PaymentStatus } from '../domain/status.js'

export interface BatchProgress {
  readonly id: string
  readonly name: string
  readonly model: ExecutionModel
  readonly size: number
  readonly ended: number
  readonly payments: Readonly<Partial<Record<PaymentStatus, number>>>
  readonly createdAt: Date
}

/** The progress of batches, oldest first: the latest twenty, or the requested one. */
export async function batchProgress(pool: pg.Pool, id?: string): Promise<BatchProgress[]> {
  const { rows } = await pool.query<BatchProgress>(progressText, [id ?? null])
  return rows
}

const progressText = `
  select
    batch.id, batch.name, batch.model, batch.size, batch.created_at as "createdAt",
    coalesce(sum(counted.n) filter (where counted.ended), 0)::int as ended,
    coalesce(jsonb_object_agg(counted.status, counted.n) filter (where counted.status is not null), '{}') as payments
  from (
    select * from payments.batch where $1::uuid is null or id = $1 order by created_at desc limit 20
  ) as batch
  left join lateral (
    select status, count(*) as n, status in ('COMPLETE', 'FAILED', 'CANCELLED') as ended
    from payments.payment
    where batch_id = batch.id
    group by status
  ) as counted on true
  group by batch.id, batch.name, batch.model, batch.size, batch.created_at
  order by batch.created_at`
