import type { Codec } from '../../kernel/codec/codec.js'
import { decodeOrRaw } from '../../kernel/codec/decode-or-raw.js'
import type { Executor } from '../../kernel/database/executor.js'
import type { Batch, BatchStatus } from '../batch.js'

interface BatchFilter {
  readonly batchId?: string
  readonly domain?: string
  readonly status?: BatchStatus
  readonly limit: number
}

type Row = Batch & { readonly notes: Record<string, string> | null }

/** Batches with their counts: final ones from the row, those of open batches from their tallies. Newest first. */
export async function findBatches(executor: Executor, codec: Codec, filter: BatchFilter): Promise<Batch[]> {
  const { batchId = null, domain = null, status = null, limit } = filter
  const rows = await executor.run<Row>(statement, [batchId, domain, status, limit])
  return rows.map(({ notes, data, ...batch }) => ({ ...batch, data: decodeOrRaw(codec, data, notes) }))
}

const statement = {
  name: 'batches.find',
  text: `
    select
      batch.batch_id as "batchId",
      batch.domain,
      batch.name,
      batch.data,
      batch.notes,
      batch.status,
      batch.sealed,
      batch.created_at as "createdAt",
      batch.started_at as "startedAt",
      batch.completed_at as "completedAt",
      coalesce(batch.total, counted.total, 0)::int as total,
      coalesce(batch.completed, counted.completed, 0)::int as completed,
      coalesce(batch.failed, counted.failed, 0)::int as failed,
      coalesce(batch.cancelled, counted.cancelled, 0)::int as cancelled,
      (
        select pg_catalog.count(*)::int from holdfast.command_trouble as trouble where trouble.batch_id = batch.batch_id
      ) + (
        select pg_catalog.count(*)::int from holdfast.process_trouble as trouble where trouble.batch_id = batch.batch_id
      ) as "inTroubleshooting"
    from holdfast.batch
    left join lateral (
      select pg_catalog.sum(added) as total, pg_catalog.sum(tally.completed) as completed, pg_catalog.sum(tally.failed) as failed, pg_catalog.sum(tally.cancelled) as cancelled
      from holdfast.batch_tally as tally
      where tally.batch_id = batch.batch_id
    ) as counted on batch.total is null
    where ($1::uuid is null or batch.batch_id = $1)
      and ($2::text is null or batch.domain = $2)
      and ($3::text is null or batch.status = $3)
    order by batch.created_at desc
    limit $4`,
}
