import type { Executor } from '../../kernel/database/executor.js'
import type { DispatchStatus } from '../states.js'

/** An item and everything that decides when it is executed. */
export interface ItemStanding {
  readonly itemType: string
  readonly now: Date
  readonly status: DispatchStatus
  readonly dueAt: Date | null
  readonly claimedAt: Date | null
  readonly dispatchedAt: Date | null
  readonly completedAt: Date | null
  /** When the target is asked about it. */
  readonly checkAt: Date | null
  readonly retryCount: number
  readonly lastError: string | null
  readonly executionId: string | null
  /** Of its execution on our own engine, while it is DISPATCHED. */
  readonly execution: { readonly model: 'processes' | 'workflows'; readonly status: string } | null
  readonly enabled: boolean
  readonly switchedOff: { readonly at: string; readonly actor: string; readonly reason: string } | null
  readonly trippedAt: Date | null
  readonly tripReason: string | null
  readonly batchSize: number
  /** Milliseconds between cycles. */
  readonly interval: number
  readonly rateLimitKey: string | null
  readonly limitPerSecond: number | null
  readonly cycleError: string | null
  /** How many items are before it, up to one more than are counted. */
  readonly before: number
}

export async function readStanding(
  executor: Executor,
  itemType: string,
  key: string,
  mostCounted: number,
): Promise<ItemStanding | undefined> {
  const [row] = await executor.run<ItemStanding & object>(standingStatement, [itemType, key, mostCounted + 1])
  return row
}

const standingStatement = {
  name: 'dispatch.read-standing',
  text: `
    select
      item.item_type as "itemType", holdfast.now() as now, item.status, item.due_at as "dueAt", item.claimed_at as "claimedAt",
      item.dispatched_at as "dispatchedAt", item.completed_at as "completedAt", item.check_at as "checkAt",
      item.retry_count as "retryCount", item.last_error as "lastError", item.execution_id as "executionId",
      config.enabled, config.batch_size as "batchSize", config.dispatch_interval_secs * 1000::float8 as interval,
      config.rate_limit_key as "rateLimitKey",
      (select tickets_per_second from holdfast.rate_limit where resource_key = config.rate_limit_key) as "limitPerSecond",
      cycle.tripped_at as "trippedAt", cycle.trip_reason as "tripReason", cycle.last_error as "cycleError",
      case when not config.enabled then (
        select pg_catalog.json_build_object('at', at, 'actor', actor, 'reason', reason)
        from holdfast.audit
        where subject_name = any (array[item.item_type, case when pg_catalog.starts_with(item.item_type, 'default/') then pg_catalog.substr(item.item_type, 9) end])
          and model = 'dispatch' and event = 'CONFIGURED'
          and after ->> 'enabled'::text = 'false'
        order by seq desc
        limit 1
      ) end as "switchedOff",
      case when item.status = 'DISPATCHED' then (
        select pg_catalog.json_build_object('model', found.model, 'status', found.status)
        from (
          select 'processes' as model, process.status
          from holdfast.process_detail as detail
          join holdfast.process on process.id = detail.id
          where detail.key = item.execution_id and detail.type = any (cycle.exec_types)
          union all
          select 'workflows', workflow.status
          from holdfast.workflow
          where workflow.key = item.execution_id and workflow.name = any (cycle.exec_types)
        ) as found
        limit 1
      ) end as execution,
      (
        select pg_catalog.count(*)::int
        from (
          select
          from holdfast.dispatch_item as earlier
          where earlier.item_type = item.item_type and (earlier.due_at, earlier.seq) < (item.due_at, item.seq)
          limit $3
        ) as earlier
      ) as before
    from holdfast.dispatch_item as item
    join holdfast.dispatch_config as config using (item_type)
    left join holdfast.dispatch_cycle as cycle using (item_type)
    where item.item_type = $1 and item.item_id = $2`,
}
