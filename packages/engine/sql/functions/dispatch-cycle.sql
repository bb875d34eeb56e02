-- revision: 6
-- after: kernel
--
-- The cycles of dispatch: a row per item type, leased by the worker that runs it (D-03). Releases and claims call these functions. What
-- must not break: every statement that takes items from the queue locks that row and compares its epoch, so that a worker that has
-- lost its lease takes nothing.

-- Whether the cycle still has this epoch. Locks it until the end of the transaction.
create or replace function holdfast.hold_dispatch_cycle(p_type text, p_epoch int)
returns boolean
language sql
as $$
  select exists (
    select from holdfast.dispatch_cycle where item_type = p_type and lease_epoch = p_epoch for no key update
  )
$$;

-- Ends a cycle. The next one begins one interval after this one began, and not before the idle time is over, which ends early when an
-- item falls due. Returns how many dead letters no dispatcher has counted yet; null if the lease was lost.
-- planner: no seqscan, no bitmapscan
create or replace function holdfast.finish_dispatch_cycle(
  p_type text, p_epoch int, p_interval_ms float8, p_rest_ms float8, p_error text
)
returns int
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_rested timestamptz := v_now + p_rest_ms * interval '1 ms';
  v_ahead interval := (
    select pre_start_buffer_mins * interval '1 minute' from holdfast.dispatch_config where item_type = p_type
  );
  v_next timestamptz;
  v_count int;
begin
  if p_rest_ms > 0 then
    -- Only items that fall due from now on: those that are due already were left for a reason.
    select due_at
    into v_next
    from holdfast.dispatch_item
    where item_type = p_type and due_at > v_now + v_ahead and due_at <= v_rested + v_ahead
    order by due_at
    limit 1;
  end if;
  update holdfast.dispatch_cycle
  set due_at = greatest(v_now, leased_at + p_interval_ms * interval '1 ms', coalesce(v_next - v_ahead, v_rested)),
      lease_epoch = lease_epoch + 1,
      leased_by = null,
      leased_at = null,
      last_run_at = v_now,
      last_error = p_error
  where item_type = p_type and lease_epoch = p_epoch;
  if not found then
    return null;
  end if;
  update holdfast.dispatch_dead_letter set counted = true where item_type = p_type and not counted;
  get diagnostics v_count = row_count;
  return v_count;
end
$$;

-- How many items may be claimed now, up to `p_most`: the number of slots to ask the rate limit for.
-- planner: no seqscan, no bitmapscan
create or replace function holdfast.count_releasable_items(p_type text, p_most int)
returns int
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_config holdfast.dispatch_config;
  v_room bigint := p_most;
begin
  select * into v_config from holdfast.dispatch_config where item_type = p_type;
  if v_config.engine <> 'REMOTE' and v_config.max_batches_ahead is not null then
    v_room := v_config.max_batches_ahead::bigint * v_config.batch_size;
    v_room := greatest(0, v_room - holdfast.count_dispatched_ahead(p_type, least(v_room, 2147483647)::int));
  end if;
  return (
    select count(*)
    from (
      select from holdfast.dispatch_item
      where item_type = p_type and due_at <= v_now
      order by due_at, seq
      limit least(p_most, v_room)
    ) as due
  );
end
$$;

-- Fails the first due item: the one whose release failed although it was released alone.
-- planner: no seqscan, no bitmapscan
create or replace function holdfast.fail_first_due(
  p_type text, p_epoch int, from_due timestamptz, from_seq bigint, p_code text, p_message text
)
returns text
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_id text;
begin
  if not holdfast.hold_dispatch_cycle(p_type, p_epoch) then
    return null;
  end if;
  select item_id
  into v_id
  from holdfast.dispatch_item
  where item_type = p_type
    and (due_at, seq) > (coalesce(from_due, '-infinity'), coalesce(from_seq, 0))
    and due_at <= v_now + (
      select pre_start_buffer_mins * interval '1 minute' from holdfast.dispatch_config where dispatch_config.item_type = p_type
    )
  order by due_at, seq
  limit 1
  for no key update skip locked;
  perform holdfast.fail_dispatch_items(jsonb_build_array(jsonb_build_object(
    'type', p_type, 'id', v_id, 'from', 'READY', 'event', 'START_FAILED', 'code', p_code, 'message', p_message
  )));
  return v_id;
end
$$;

-- How many executions of this type's items exist and have not begun, up to `p_most`. Counting begins at the oldest one that had not
-- begun the last time, because all before it have begun.
-- planner: generic, no seqscan, no bitmapscan
create or replace function holdfast.count_dispatched_ahead(p_type text, p_most int)
returns int
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_cycle holdfast.dispatch_cycle;
  v_count int;
  v_oldest timestamptz;
begin
  select * into v_cycle from holdfast.dispatch_cycle where item_type = p_type;
  select count(*), min(ahead.created_at)
  into v_count, v_oldest
  from unnest(v_cycle.exec_types) as exec_type,
  lateral (
    (
      select process.created_at
      from holdfast.process
      where status = 'PENDING'
        and type = exec_type
        and process.created_at >= coalesce(v_cycle.ahead_since, '-infinity')
        and leased_at is null
        and lease_epoch = unbegun_epoch
        and dispatch_type = p_type
      order by process.created_at
      limit p_most
    )
    union all
    (
      select workflow.created_at
      from holdfast.workflow
      where status = 'PENDING'
        and name = exec_type
        and workflow.created_at >= coalesce(v_cycle.ahead_since, '-infinity')
        and dispatch_type = p_type
      order by workflow.created_at
      limit p_most
    )
  ) as ahead;
  v_oldest := coalesce(v_oldest, v_now);
  if v_cycle.ahead_since is distinct from v_oldest then
    update holdfast.dispatch_cycle set ahead_since = v_oldest where item_type = p_type;
  end if;
  return v_count;
end
$$;

-- Locks the first items of a type that are due by a moment, beginning at a place in their order; returns them in that order, and the
-- place of the last one. Items that another transaction has locked are skipped.
-- planner: indexed
create or replace function holdfast.lock_due_items(
  p_type text, from_due timestamptz, from_seq bigint, p_until timestamptz, p_most int,
  out ids text[], out last_due timestamptz, out last_seq bigint
)
language plpgsql
as $$
begin
  select array_agg(item_id), (array_agg(due_at))[count(*)], (array_agg(seq))[count(*)]
  into ids, last_due, last_seq
  from (
    select item_id, due_at, seq
    from holdfast.dispatch_item
    where item_type = p_type
      and (due_at, seq) > (coalesce(from_due, '-infinity'), coalesce(from_seq, 0))
      and due_at <= p_until
    order by due_at, seq
    limit p_most
    for no key update skip locked
  ) as due;
end
$$;
