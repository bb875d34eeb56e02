import type { Codec } from '../../kernel/codec/codec.js'
import { decodeOrRaw } from '../../kernel/codec/decode-or-raw.js'
import type { Notes } from '../../kernel/codec/notes.js'
import type { Executor } from '../../kernel/model/index.js'
import type { DispatchStatus } from '../states.js'

/** An item as it is now. */
export interface DispatchItem {
  readonly domain: string
  readonly type: string
  readonly key: string
  readonly status: DispatchStatus
  /** When it is to be executed. */
  readonly startAt: Date
  /** When it may be claimed: its time, or that of its next attempt; null unless it is READY. */
  readonly dueAt: Date | null
  readonly retryCount: number
  readonly initWorkflowId: string | null
  /** The batch in which it was released. */
  readonly batch: string | null
  /** The key of its process or workflow, or its id on a remote target. */
  readonly executionId: string | null
  readonly claimedAt: Date | null
  readonly dispatchedAt: Date | null
  readonly completedAt: Date | null
  readonly lastError: string | null
  readonly createdAt: Date
  readonly updatedAt: Date
}

/** With its context; nothing once it has ended. */
export interface DispatchItemDetails extends DispatchItem {
  readonly context: unknown
  readonly contextVersion: number | null
}

export interface ItemFilter {
  readonly domain: string | undefined
  readonly type: string | undefined
  readonly status: DispatchStatus | undefined
  readonly key: string | undefined
  readonly batch: string | undefined
  readonly startFrom: Date | undefined
  readonly startUntil: Date | undefined
  readonly since: Date | undefined
  readonly until: Date | undefined
}

const COLUMNS = `
      pg_catalog.split_part(item.item_type, '/', 1) as domain, pg_catalog.split_part(item.item_type, '/', 2) as type,
      item.item_id as key, item.status, item.exec_time as "startAt",
      item.due_at as "dueAt", item.retry_count as "retryCount", item.init_workflow_id as "initWorkflowId",
      item.batch_id as batch, item.execution_id as "executionId", item.claimed_at as "claimedAt",
      item.dispatched_at as "dispatchedAt", item.completed_at as "completedAt", item.last_error as "lastError",
      item.created_at as "createdAt", item.updated_at as "updatedAt"`

export async function findItem(
  executor: Executor,
  codec: Codec,
  itemType: string,
  key: string,
): Promise<DispatchItemDetails | undefined> {
  type Row = DispatchItemDetails & { readonly notes: Notes | null }
  const [row] = await executor.run<Row>(findStatement, [itemType, key])
  if (!row) return undefined
  const { notes, context, ...item } = row
  return { ...item, context: context === null ? undefined : decodeOrRaw(codec, context, notes) }
}

/** The newest first, each with its place in the list. */
export async function listItems(
  executor: Executor,
  filter: ItemFilter,
  after: readonly [microseconds: string, seq: string] | undefined,
  most: number,
): Promise<{ readonly item: DispatchItem; readonly place: string }[]> {
  const values = [...conditionsOf(filter), after?.[0] ?? null, after?.[1] ?? null, most]
  const rows = await executor.run<DispatchItem & { place: string }>(listStatement, values)
  return rows.map(({ place, ...item }) => ({ item, place }))
}

/** How many match. By type and status alone it is a sum over few rows, whatever the number of items. */
export async function findCount(executor: Executor, filter: ItemFilter): Promise<number> {
  const { domain, type, status, ...others } = filter
  const byItems = Object.values(others).some((value) => value !== null)
  const [row] = byItems
    ? await executor.run<{ count: number }>(countStatement, conditionsOf(filter))
    : await executor.run<{ count: number }>(sumStatement, [domain, type, status])
  return row?.count ?? 0
}

const conditionsOf = (filter: ItemFilter): readonly unknown[] => [
  filter.domain,
  filter.type,
  filter.status,
  filter.key,
  filter.batch,
  filter.startFrom,
  filter.startUntil,
  filter.since,
  filter.until,
]

const findStatement = {
  name: 'dispatch.find-item',
  text: `
    select ${COLUMNS}, context.context, context.notes, context.context_version as "contextVersion"
    from holdfast.dispatch_item as item
    left join holdfast.dispatch_context as context using (item_type, item_id)
    where item.item_type = $1 and item.item_id = $2`,
}

/** The types that fit, few of them: each has its part of the index by time of scheduling. */
const TYPES = `
      select config.item_type
      from holdfast.dispatch_config as config
      where ($1::text is null or pg_catalog.split_part(config.item_type, '/', 1) = $1)
        and ($2::text is null or pg_catalog.split_part(config.item_type, '/', 2) = $2)`

/** `seq > 0` is true of every item, and lets the planner use the index of lists, which no other statement may use. */
const FITS = `
        item.item_type = types.item_type
        and item.seq > 0::bigint
        and ($3::text is null or item.status = $3)
        and ($4::text is null or item.item_id = $4 collate "C")
        and ($5::uuid is null or item.batch_id = $5)
        and ($6::timestamptz is null or item.exec_time >= $6)
        and ($7::timestamptz is null or item.exec_time < $7)
        and item.created_at >= coalesce($8::timestamptz, '-infinity'::timestamptz)
        and item.created_at < coalesce($9::timestamptz, 'infinity'::timestamptz)`

const listStatement = {
  name: 'dispatch.list-items',
  text: `
    with types as (${TYPES}
    )
    select ${COLUMNS},
      (extract(epoch from item.created_at) * 1000000::numeric)::bigint::text || ':'::text || item.seq::text as place
    from types,
    lateral (
      select *
      from holdfast.dispatch_item as item
      where ${FITS}
        and (item.created_at, item.seq) < (
          coalesce('epoch'::timestamptz + $10::bigint::float8 * interval '1 microsecond', 'infinity'::timestamptz),
          coalesce($11::bigint, 0::bigint)
        )
      order by item.created_at desc, item.seq desc
      limit $12
    ) as item
    order by item.created_at desc, item.seq desc
    limit $12`,
}

const countStatement = {
  name: 'dispatch.count-fitting-items',
  text: `
    with types as (${TYPES}
    )
    select pg_catalog.count(*)::float8 as count
    from types
    join holdfast.dispatch_item as item on ${FITS}`,
}

const sumStatement = {
  name: 'dispatch.sum-items',
  text: `
    with types as (${TYPES}
    )
    select coalesce(pg_catalog.sum(tally.count), 0)::float8 as count
    from types
    join holdfast.dispatch_tally as tally on tally.item_type = types.item_type and ($3::text is null or tally.status = $3)`,
}
