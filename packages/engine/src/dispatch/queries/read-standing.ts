import type { Executor } from '../../kernel/model/index.js'
import type { DispatchStatus } from '../states.js'
import type { OwnExecution } from './operate-items.js'

/** What a person did, when and why. */
export interface Act {
  readonly at: string
  readonly actor: string
  readonly reason: string
}

/** The process or workflow of a dispatched item: only what dispatch decides of it. */
interface OwnExecutionStanding extends OwnExecution {
  /** It has not begun and has no time at which it would: the kill switch holds it. */
  readonly held: boolean
  /** When it is to begin; null once it has begun. */
  readonly startAt: string | null
}

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
  /** While it is DISPATCHED to our own engine. */
  readonly execution: OwnExecutionStanding | null
  readonly enabled: boolean
  readonly switchedOff: Act | null
  /** Of its domain or definition. */
  readonly pause: (Act & { readonly subject: string }) | null
  readonly trippedAt: Date | null
  readonly tripReason: string | null
  readonly batchSize: number
  /** Milliseconds between cycles. */
  readonly interval: number
  readonly rateLimitKey: string | null
  readonly limitPerSecond: number | null
  /** Whether a live worker has its definition. */
  readonly live: boolean
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

/** A worker that has not been seen for longer is gone, as in `kernel/results/presence.ts`. */
const LIVE = `> holdfast.now() - interval '150 seconds'`

const EXECUTION = `(
        select 'processes' as model, process.id, process.type,
          process.status = 'PENDING' and process.due_at is null and process.queued_at is null as held,
          case when process.status = 'PENDING' then detail.start_at end as "startAt"
        from holdfast.process_detail as detail
        join holdfast.process on process.id = detail.id
        where detail.key = item.execution_id and detail.type = any (cycle.exec_types)
        union all
        select 'workflows', workflow.id, workflow.name, workflow.status = 'PENDING' and root.due_at is null,
          case when workflow.status = 'PENDING' then root.scheduled_at end
        from holdfast.workflow
        left join holdfast.workflow_step as root on root.workflow_id = workflow.id and root.number = -1
        where workflow.key = item.execution_id and workflow.name = any (cycle.exec_types)
      )`

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
      (
        select pg_catalog.json_build_object('subject', subject, 'at', paused_at, 'actor', actor, 'reason', reason)
        from holdfast.pause
        where subject in ('domain:' || pg_catalog.split_part(item.item_type, '/', 1), 'definition:' || item.item_type)
        order by paused_at
        limit 1
      ) as pause,
      coalesce(holdfast.last_seen('dispatch', item.item_type) ${LIVE}, false) as live,
      case when item.status = 'DISPATCHED' then (select pg_catalog.to_json(found) from ${EXECUTION} as found limit 1) end as execution,
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
