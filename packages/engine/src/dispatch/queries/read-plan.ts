import type { Executor } from '../../kernel/model/index.js'
import type { DueMinute } from '../forecast.js'

export interface PlanFacts {
  readonly now: Date
  readonly ready: number
  readonly overdue: number
  /** The minutes in which items fall due, the earliest first; what is overdue is in its own minute. */
  readonly due: readonly DueMinute[]
  /** READY items beyond those minutes. */
  readonly later: number
  readonly lastDueAt: Date | null
  readonly limitPerSecond: number | null
  /** The rate of release in the last minute, per second; null if nothing was released. */
  readonly measuredPerSecond: number | null
}

interface Row extends Omit<PlanFacts, 'due' | 'later'> {
  readonly due: readonly { readonly at: string; readonly count: number }[] | null
}

/** What the plan is made from, in one statement. */
export async function readPlan(executor: Executor, itemType: string, minutes: number): Promise<PlanFacts | undefined> {
  const [row] = await executor.run<Row>(planStatement, [itemType, minutes])
  if (!row) return undefined
  const due = (row.due ?? []).map(({ at, count }) => ({ at: new Date(at), count }))
  return { ...row, due, later: row.ready - due.reduce((sum, { count }) => sum + count, 0) }
}

/**
 * Sums of the tallies, and of the newest batches: nothing here goes through the items. A batch counts for the interval that
 * follows it, so that the first one of a window does not look like a rate of its own.
 */
const planStatement = {
  name: 'dispatch.read-plan',
  text: `
    with by_minute as materialized (
      select minute as at, pg_catalog.sum(count) as count
      from holdfast.dispatch_tally
      where item_type = $1 and status = 'READY'
      group by minute
      having pg_catalog.sum(count) > 0::numeric
    ),
    batches as (
      select pg_catalog.sum(started) as started, pg_catalog.min(at) as first, pg_catalog.max(at) as last, pg_catalog.count(*) as count
      from (
        select at, (detail ->> 'started'::text)::int as started
        from holdfast.audit
        where subject_name = $1
          and model = 'dispatch'
          and event = 'BATCH'
          and at > holdfast.now() - interval '1 minute'
        order by seq desc
        limit 500
      ) as newest
    )
    select
      holdfast.now() as now,
      coalesce((select pg_catalog.sum(count) from by_minute), 0)::float8 as ready,
      (
        coalesce((select pg_catalog.sum(count) from by_minute where at < pg_catalog.date_trunc('minute', holdfast.now())), 0)::float8
        + holdfast.count_due_this_minute(
          $1, coalesce((select count from by_minute where at = pg_catalog.date_trunc('minute', holdfast.now())), 0)::bigint
        )::float8
      ) as overdue,
      (
        select due_at
        from holdfast.dispatch_item
        where item_type = $1 and due_at is not null
        order by item_type desc, due_at desc, seq desc
        limit 1
      ) as "lastDueAt",
      (
        select pg_catalog.json_agg(pg_catalog.json_build_object('at', at, 'count', count) order by at)
        from (select * from by_minute order by at limit $2) as first_minutes
      ) as due,
      (
        select tickets_per_second from holdfast.rate_limit where resource_key = config.rate_limit_key
      ) as "limitPerSecond",
      (
        select started::float8 / greatest(
          1,
          extract(epoch from last - first) + config.dispatch_interval_secs::numeric,
          extract(epoch from holdfast.now() - first)
        )::float8
        from batches
        where count > 0
      ) as "measuredPerSecond"
    from holdfast.dispatch_config as config
    where item_type = $1`,
}
