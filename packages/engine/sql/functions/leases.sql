-- revision: 3
-- after: kernel
--
-- Leases of claimed rows, once for all work tables: heartbeat, release, early end of a lease, and the age of the oldest due item. Workers
-- call the functions that are generated here through `leasesOfTable` of the library. Claims of large tables are written by hand, because
-- their indexes and limits differ. A row belongs to a worker as long as its `lease_epoch` is the one that the worker's claim set. What
-- must not break: rows are locked in the order of their keys; rows that another transaction has locked are skipped and are in neither
-- result list, so that one open transaction of a user never costs a worker its other leases; each statement reads only the requested
-- rows, whatever the planner knows of the table (K-17).
--
--   extend_<name>    extends leases; returns which are extended and which are lost
--   release_<name>   releases rows that were claimed and not begun: due at once
--   expire_<name>    ends leases now, of rows that count as not released (K-19)
--   oldest_<name>    for how many seconds the oldest due item of these lanes has been due
--
-- Messages of queues have a table per queue: commands-lease.sql does the same for them.

-- The claim of a table with a handful of rows, one for each lane, which needs no index and no watermark. Larger tables have claims of
-- their own.
create or replace function holdfast.make_claim_function(p_name text, p_table text, p_key text)
returns void
language plpgsql
as $$
begin
  perform holdfast.make_function(
    p_name,
    'lanes text[], worker text, most int, lease_ms int, spare_leased boolean, ceiling_ms int, out items json, out next_due_ms float8',
    format(
      $body$
      declare
        v_now timestamptz := %1$snow();
        v_lanes text[] := array(
          select it.%3$s
          from %2$s as it
          where it.%3$s = any (lanes) and it.due_at <= v_now and (it.leased_at is null or not spare_leased)
          order by it.due_at
          limit most
          for no key update skip locked
        );
      begin
        with claimed as (
          update %2$s as it
          set due_at = v_now + lease_ms * interval '1 ms', lease_epoch = lease_epoch + 1, leased_by = worker, leased_at = v_now
          where it.%3$s = any (v_lanes)
          returning it.%3$s as lane, it.lease_epoch
        )
        select coalesce(json_agg(json_build_object('id', lane, 'type', lane, 'epoch', lease_epoch)), '[]') into items from claimed;
        select extract(epoch from min(it.due_at) - v_now) * 1000
        into next_due_ms
        from %2$s as it
        where it.%3$s = any (lanes) and it.due_at > v_now and it.due_at <= v_now + ceiling_ms * interval '1 ms';
      end
      $body$,
      'holdfast.', 'holdfast.' || p_table, p_key
    )
  );
end
$$;

-- The parts that the statements share. A table has one key column, or a second one that is a number: `p_keys` and `p_types`. `p_held` is
-- the condition that the lease of a row `it` is kept. `free` locks the rows that still have our epoch. `chosen` joins them with the table
-- `it`; its last condition is always true and is estimated as one row, so that a plan begins with the requested rows.
create or replace function holdfast.lease_parts(
  p_table text, p_keys text[], p_types text[], p_held text,
  out arguments text, out asked text, out matches text, out id text, out asked_id text, out free text, out chosen text
)
language plpgsql
stable
as $$
begin
  arguments := 'ids ' || p_types[1] || '[]' || coalesce(', numbers ' || p_types[2] || '[]', '') || ', epochs int[]';
  asked := format(
    'unnest(ids%s, epochs) as asked (%s, epoch)',
    case when cardinality(p_keys) > 1 then ', numbers' end, array_to_string(p_keys, ', ')
  );
  select string_agg(format('it.%1$s = asked.%1$s', key), ' and '), string_agg('it.' || key, $id$ || '/' || $id$),
    string_agg('asked.' || key, $id$ || '/' || $id$),
    string_agg(format('it.%1$s = free.%1$s', key), ' and ') || ' and free.epoch = free.epoch + 0'
  into matches, id, asked_id, chosen
  from unnest(p_keys) as key;
  free := format(
    $part$
          select asked.*
          from (select * from %1$s order by %2$s) as asked
          cross join lateral (
            select
            from %3$s as it
            where %4$s and it.lease_epoch = asked.epoch and %5$s
            for no key update skip locked
          ) as locked$part$,
    asked, array_to_string(p_keys, ', '), 'holdfast.' || p_table, matches, p_held
  );
end
$$;

-- `p_more` are further arguments, `p_changes` further columns to set, `p_lease_ms` the length of the lease.
create or replace function holdfast.make_extend_function(
  p_name text, p_table text, p_keys text[], p_types text[], p_held text default '(it.leased_at is not null)',
  p_more text default '', p_changes text default '', p_lease_ms text default 'lease_ms'
)
returns void
language plpgsql
as $$
declare
  v_parts record;
begin
  select * into v_parts from holdfast.lease_parts(p_table, p_keys, p_types, p_held);
  perform holdfast.make_function(
    'extend_' || p_name, v_parts.arguments || p_more || ', lease_ms int, out extended json, out lost json',
    format(
      $body$
      begin
        with free as materialized (%1$s
        ),
        moved as (
          update %2$s as it
          set due_at = %3$snow() + %4$s * interval '1 ms'%5$s
          from free
          where %11$s
          returning %6$s as id
        )
        select
          (select coalesce(json_agg(moved.id), '[]') from moved),
          (
            select coalesce(json_agg(%7$s), '[]')
            from %8$s
            left join %2$s as it on %9$s
            where it.lease_epoch is null or it.lease_epoch <> asked.epoch or not %10$s
          )
        into extended, lost;
      end
      $body$,
      v_parts.free, 'holdfast.' || p_table, 'holdfast.', p_lease_ms, p_changes, v_parts.id, v_parts.asked_id, v_parts.asked,
      v_parts.matches, p_held, v_parts.chosen
    ),
    holdfast.planner_looped()
  );
end
$$;

-- Releases leases ('release_') or ends them ('expire_'). `p_changes` are further columns to set, `p_lane` the column by which rows are
-- claimed, `p_topic` the topic that wakes up its workers; `p_beside` is a further statement over the rows `free`.
create or replace function holdfast.make_ending_function(
  p_verb text, p_name text, p_table text, p_keys text[], p_types text[], p_lane text, p_topic text default null,
  p_changes text default '', p_beside text default 'select'
)
returns void
language plpgsql
as $$
declare
  v_parts record;
begin
  select * into v_parts from holdfast.lease_parts(p_table, p_keys, p_types, '(it.leased_at is not null)');
  perform holdfast.make_function(
    p_verb || p_name, v_parts.arguments || ', out ended int',
    format(
      $body$
      declare
        v_lanes text[];
        v_lane text;
      begin
        with free as materialized (%1$s
        ),
        beside as (%2$s),
        changed as (
          update %3$s as it
          set due_at = %4$snow()%5$s
          from free
          where %8$s
          returning it.%6$s as lane
        )
        select array_agg(distinct lane), count(*) into v_lanes, ended from changed;
        foreach v_lane in array coalesce(v_lanes, '{}') loop
          %7$s;
        end loop;
      end
      $body$,
      v_parts.free, p_beside, 'holdfast.' || p_table, 'holdfast.', p_changes, p_lane,
      -- The row is due before a worker would poll, and its slot may be what other processes wait for.
      case when p_topic is null then 'null' else format('perform %swake(%L || v_lane)', 'holdfast.', p_topic) end,
      v_parts.chosen
    ),
    holdfast.planner_looped()
  );
end
$$;

-- `p_lanes` are the lanes to read, one by one, as the index of `p_table` has them: the minimum over all at once would read the whole
-- backlog.
create or replace function holdfast.make_oldest_function(
  p_name text, p_table text, p_matches text, p_lanes text default 'unnest(lanes) as lane (name)',
  p_due text default 'it.due_at <= v_now', p_since text default 'due_at', p_order text default 'it.due_at'
)
returns void
language plpgsql
as $$
begin
  perform holdfast.make_function(
    'oldest_' || p_name, 'lanes text[], out seconds float8',
    format(
      $body$
      declare
        v_now timestamptz := %1$snow();
      begin
        select extract(epoch from v_now - min(oldest.since))
        into seconds
        from %2$s,
        lateral (
          select it.%3$s as since
          from %4$s as it
          where %5$s and %6$s
          order by %7$s
          limit 1
        ) as oldest;
      end
      $body$,
      'holdfast.', p_lanes, p_since, 'holdfast.' || p_table, p_matches, p_due, p_order
    ),
    holdfast.planner_looped()
  );
end
$$;

-- The settings of `-- planner: looped`, for functions that are generated here.
create or replace function holdfast.planner_looped()
returns text
language sql
immutable
parallel safe
as $$
  select 'set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off'
$$;

select holdfast.make_claim_function('chore_claim', 'chore', 'name');
select holdfast.make_extend_function('chores', 'chore', array['name'], array['text']);
select holdfast.make_ending_function('release_', 'chores', 'chore', array['name'], array['text'], 'name',
  p_changes => ', leased_by = null, leased_at = null');
select holdfast.make_oldest_function('chores', 'chore', 'it.name = lane.name');

-- The age is that of the oldest item, because a cycle is always due.
select holdfast.make_claim_function('claim_dispatch_cycles', 'dispatch_cycle', 'item_type');
select holdfast.make_extend_function('dispatch_cycles', 'dispatch_cycle', array['item_type'], array['text']);
select holdfast.make_ending_function('release_', 'dispatch_cycles', 'dispatch_cycle', array['item_type'], array['text'], 'item_type',
  p_changes => ', leased_by = null, leased_at = null');
select holdfast.make_oldest_function('dispatch_cycles', 'dispatch_item', 'it.item_type = lane.name');

-- A release does not count as a crash, and does not erase an earlier one. A dispatched process that is released has still not begun.
-- Each version has an index of its own.
select holdfast.make_extend_function('processes', 'process', array['id'], array['uuid']);
select holdfast.make_ending_function('release_', 'processes', 'process', array['id'], array['uuid'], 'type', 'processes:',
  p_changes => ', leased_by = null, leased_at = null, rested_epoch = rested_epoch + 1,'
    ' unbegun_epoch = case when unbegun_epoch = lease_epoch - 1 then lease_epoch end',
  p_beside => $sql$delete from holdfast.process_slot where process_id in (select free.id from free)$sql$);
select holdfast.make_ending_function('expire_', 'processes', 'process', array['id'], array['uuid'], 'type', 'processes:');
select holdfast.make_oldest_function('processes', 'process', 'it.type = lane.type and it.version = lane.version',
  $sql$(
          select distinct name as type, version from holdfast.worker_definition where model = 'processes' and name = any (lanes)
        ) as lane$sql$);

-- The first row of a group carries the lease. processes-inbox.sql releases groups.
select holdfast.make_extend_function('inbox', 'process_inbox', array['id'], array['uuid']);
select holdfast.make_oldest_function('inbox', 'process_inbox', 'it.type = lane.name');

-- A lease that has ended is extended as long as no worker has claimed the step (K-03), also if a claim without room for it has made it
-- ready. A workflow may set the length of its leases. workflows-lease.sql releases steps. The oldest step is the first in the order of
-- claims: with aging it is among the oldest, and no other index would be more exact.
select holdfast.make_extend_function('workflow_steps', 'workflow_step', array['workflow_id', 'number'], array['uuid', 'smallint'],
  p_held => '(it.leased_at is not null or it.ready and it.in_flight)',
  p_more => ', worker text, own_ms int',
  p_changes => $sql$, ready = false, leased_by = coalesce(it.leased_by, worker), leased_at = coalesce(it.leased_at, holdfast.now())$sql$,
  p_lease_ms => $sql$greatest(
            coalesce((select definition.lease_ms from holdfast.workflow_definition as definition where definition.id = it.definition_id), own_ms),
            extend_workflow_steps.lease_ms
          )$sql$);
select holdfast.make_ending_function('expire_', 'workflow_steps', 'workflow_step', array['workflow_id', 'number'],
  array['uuid', 'smallint'], 'handler', 'workflows:');
select holdfast.make_oldest_function('workflow_steps', 'workflow_step', 'it.handler = lane.name',
  p_due => 'it.ready', p_since => 'scheduled_at', p_order => 'it.rank, it.scheduled_at');
