import type { By, Executor } from '../../kernel/model/index.js'
import type { DispatchStatus } from '../states.js'

export type ItemOperation = 'CANCEL' | 'RESCHEDULE' | 'EXPEDITE' | 'RETRY' | 'DISCARD' | 'COMPLETE'

/** `done`, `unknown`, or the status of an item that it cannot be done to, with its execution. */
export interface OperatedItem {
  readonly key: string
  readonly outcome: 'done' | 'unknown' | DispatchStatus
  readonly executionId: string | null
}

/** What a reschedule or a retry changes, with the names of the table. */
export interface ItemChange {
  readonly execTime?: number
  /** A start of unknown outcome was not done. */
  readonly notDone?: boolean
  /** Only dead letters, and no start of unknown outcome. */
  readonly inTrouble?: boolean
  readonly context?: unknown
  readonly notes?: unknown
  readonly version?: number
  readonly checked?: boolean
  readonly details?: unknown
}

export async function operateItems(
  executor: Executor,
  asked: {
    readonly operation: ItemOperation
    readonly itemType: string
    readonly ids: readonly string[]
    readonly change?: ItemChange
  },
  { actor, reason }: By,
): Promise<OperatedItem[]> {
  const { operation, itemType, ids, change = {} } = asked
  return executor.run<OperatedItem>(operateStatement, [operation, itemType, ids, JSON.stringify(change), actor, reason])
}

/** The items that another transaction has locked; all others are locked by this one. */
export async function findLockedItems(executor: Executor, itemType: string, ids: readonly string[]): Promise<string[]> {
  const rows = await executor.run<{ id: string }>(lockedStatement, [itemType, ids])
  return rows.map(({ id }) => id)
}

/** Ids of the items that match, in order, beginning after a given one. */
export async function findItemIds(
  executor: Executor,
  fits: {
    readonly itemType: string
    readonly status: DispatchStatus
    readonly batchId: string | null
    readonly from: Date | null
    readonly until: Date | null
  },
  after: string,
  most: number,
): Promise<string[]> {
  const { itemType, status, batchId, from, until } = fits
  const rows = await executor.run<{ id: string }>(findStatement, [itemType, status, batchId, from, until, after, most])
  return rows.map(({ id }) => id)
}

export interface OwnExecution {
  readonly model: 'processes' | 'workflows'
  readonly id: string
  readonly type: string
}

/** The execution of a dispatched item on our own engine. */
export async function findExecution(
  executor: Executor,
  itemType: string,
  executionId: string,
): Promise<OwnExecution | undefined> {
  const [row] = await executor.run<OwnExecution & object>(executionStatement, [itemType, executionId])
  return row
}

const operateStatement = {
  name: 'dispatch.operate-items',
  text: `
    select "itemId" as key, outcome, "executionId"
    from holdfast.operate_dispatch_items($1, $2, $3::text[], $4::text::jsonb, $5, $6)`,
}

const lockedStatement = {
  name: 'dispatch.find-locked-items',
  text: `
    with free as materialized (
      select item_id
      from holdfast.dispatch_item
      where item_type = $1 and item_id = any ($2::text[])
      order by item_id
      for no key update skip locked
    )
    select item_id as id
    from holdfast.dispatch_item
    where item_type = $1 and item_id = any ($2::text[]) and item_id not in (select item_id from free)`,
}

const findStatement = {
  name: 'dispatch.find-item-ids',
  text: `
    select item.item_id as id
    from holdfast.dispatch_item as item
    where item.item_type = $1
      and item.status = $2
      and ($3::uuid is null or item.batch_id = $3)
      and ($4::timestamptz is null or item.exec_time >= $4)
      and ($5::timestamptz is null or item.exec_time < $5)
      and item.item_id > $6 collate "C"
    order by item.item_id
    limit $7`,
}

const executionStatement = {
  name: 'dispatch.find-execution',
  text: `
    select 'processes' as model, id, type
    from holdfast.process_detail
    where key = $2 and type = any (select pg_catalog.unnest(exec_types) from holdfast.dispatch_cycle where item_type = $1)
    union all
    select 'workflows', id, name
    from holdfast.workflow
    where key = $2 and name = any (select pg_catalog.unnest(exec_types) from holdfast.dispatch_cycle where item_type = $1)
    limit 1`,
}
