import type { Codec } from '../../kernel/codec/codec.js'
import { decodeOrRaw } from '../../kernel/codec/decode-or-raw.js'
import type { Notes } from '../../kernel/codec/notes.js'
import type { Executor } from '../../kernel/database/executor.js'
import type { DispatchStatus } from '../states.js'

/** An item as it stands. */
export interface DispatchItem {
  readonly itemType: string
  readonly key: string
  readonly status: DispatchStatus
  /** When it is to be executed. */
  readonly startAt: Date
  /** When it may be claimed: its time, or that of its next try; null unless it is READY. */
  readonly dueAt: Date | null
  readonly retryCount: number
  readonly initWorkflowId: string | null
  readonly batchId: string | null
  readonly executionId: string | null
  readonly claimedAt: Date | null
  readonly dispatchedAt: Date | null
  readonly completedAt: Date | null
  readonly lastError: string | null
  readonly createdAt: Date
  readonly updatedAt: Date
}

/** With what it is executed with; nothing once it has ended. */
export interface DispatchItemDetails extends DispatchItem {
  readonly context: unknown
  readonly contextVersion: number | null
}

export interface ItemFilter {
  readonly itemType: string
  readonly status?: DispatchStatus | undefined
  readonly batchId?: string | undefined
  readonly from?: Date | undefined
  readonly until?: Date | undefined
  readonly limit: number
}

const COLUMNS = `
      item.item_type as "itemType", item.item_id as key, item.status, item.exec_time as "startAt",
      item.due_at as "dueAt", item.retry_count as "retryCount", item.init_workflow_id as "initWorkflowId",
      item.batch_id as "batchId", item.execution_id as "executionId", item.claimed_at as "claimedAt",
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

/** By their execution time, the earliest first. */
export async function listItems(executor: Executor, filter: ItemFilter): Promise<DispatchItem[]> {
  const { itemType, status, batchId, from, until, limit } = filter
  return executor.run<DispatchItem>(listStatement, [
    itemType,
    status ?? null,
    batchId ?? null,
    from ?? null,
    until ?? null,
    limit,
  ])
}

const findStatement = {
  name: 'dispatch.find-item',
  text: `
    select ${COLUMNS}, context.context, context.notes, context.context_version as "contextVersion"
    from holdfast.dispatch_item as item
    left join holdfast.dispatch_context as context using (item_type, item_id)
    where item.item_type = $1 and item.item_id = $2`,
}

const listStatement = {
  name: 'dispatch.list-items',
  text: `
    select ${COLUMNS}
    from holdfast.dispatch_item as item
    where item.item_type = $1
      and ($2::text is null or item.status = $2)
      and ($3::uuid is null or item.batch_id = $3)
      and ($4::timestamptz is null or item.exec_time >= $4)
      and ($5::timestamptz is null or item.exec_time < $5)
    order by item.exec_time, item.seq
    limit $6`,
}
