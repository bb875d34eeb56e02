import type { Codec } from '../../kernel/codec/codec.js'
import { decodeOrRaw } from '../../kernel/codec/decode-or-raw.js'
import type { Executor } from '../../kernel/model/index.js'
import type { Batch, BatchStatus } from '../batch.js'

interface BatchFilter {
  readonly batchId?: string
  readonly domain?: string | undefined
  readonly status?: BatchStatus | undefined
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
      coalesce(batch.total, batch.tallied_total + counted.total)::int as total,
      coalesce(batch.completed, batch.tallied_completed + counted.completed)::int as completed,
      coalesce(batch.failed, batch.tallied_failed + counted.failed)::int as failed,
      coalesce(batch.cancelled, batch.tallied_cancelled + counted.cancelled)::int as cancelled,
      (
        select pg_catalog.count(*)::int from holdfast.command_trouble as trouble where trouble.batch_id = batch.batch_id
      ) + (
        select pg_catalog.count(*)::int from holdfast.process_trouble as trouble where trouble.batch_id = batch.batch_id
      ) as "inTroubleshooting"
    from holdfast.batch
    left join lateral (
      select
        coalesce(pg_catalog.sum(tally.added), 0)::int as total,
        coalesce(pg_catalog.sum(tally.completed), 0)::int as completed,
        coalesce(pg_catalog.sum(tally.failed), 0)::int as failed,
        coalesce(pg_catalog.sum(tally.cancelled), 0)::int as cancelled
      from holdfast.batch_tally as tally
      where tally.batch_id = batch.batch_id
    ) as counted on batch.total is null
    where ($1::uuid is null or batch.batch_id = $1)
      and ($2::text is null or batch.domain = $2)
      and ($3::text is null or batch.status = $3)
    order by batch.created_at desc
    limit $4`,
}
