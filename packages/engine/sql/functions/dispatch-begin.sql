-- revision: 3
-- after: kernel, limiter
--
-- Decides whether a dispatched execution may begin (D-14), in the claim that leases it. Claims call these functions only for work that
-- was dispatched and has not begun. What must not break: nothing begins while the kill switch is on, and an execution that is too late
-- for its start gets a new start. So a backlog of missed starts (after a resume, a pause, or an outage of workers or database) does not
-- begin all at once.

-- The advisory lock between the kill switch and claims. A claim shares it until it commits. The kill switch takes it exclusively: it
-- waits for claims in flight, and later claims see the switch.
create or replace function holdfast.dispatch_gate(p_type text)
returns bigint
language sql
stable
as $$
  select hashtextextended('holdfast dispatch gate ' || p_type, (select tableoid from holdfast.clock)::bigint)
$$;

-- How late an execution may begin without a new start; null: at any time, because this type has no rate. The starts of a rate limit are
-- close together, those of batches are seconds apart.
create or replace function holdfast.dispatch_tolerance(config holdfast.dispatch_config)
returns interval
language sql
immutable
parallel safe
as $$
  select case
    when config.rate_limit_key is not null then interval '250 ms'
    when config.dispatch_interval_secs > 0 then interval '1 second'
  end
$$;

-- New starts for `p_count` executions, in order; null if another transaction is reserving starts, because a claim must not wait for it.
create or replace function holdfast.new_dispatch_starts(config holdfast.dispatch_config, p_count int)
returns timestamptz[]
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_slots record;
  v_step interval := config.dispatch_interval_secs / config.batch_size * interval '1 second';
  v_from timestamptz;
begin
  if config.rate_limit_key is not null then
    select * into v_slots
    from holdfast.reserve_slots(array[config.rate_limit_key], array[p_count], array[1e12::float8], false);
    if v_slots.outcome <> 'reserved' then
      return null;
    end if;
    return array(
      select to_timestamp((v_slots.at_us + greatest(0, v_slots.first_us + nth * v_slots.step_us)) / 1e6)
      from generate_series(0, p_count - 1) as nth
      order by nth
    );
  end if;
  insert into holdfast.dispatch_pace (item_type, until) values (config.item_type, v_now) on conflict do nothing;
  select greatest(v_now, until) into v_from
  from holdfast.dispatch_pace
  where item_type = config.item_type
  for no key update skip locked;
  if not found then
    return null;
  end if;
  update holdfast.dispatch_pace set until = v_from + p_count * v_step where item_type = config.item_type;
  return array(select v_from + nth * v_step from generate_series(0, p_count - 1) as nth order by nth);
end
$$;

-- Which of these processes, which the claim has locked, may be leased now. The others get no lease: they are held back, or due at their new
-- start.
-- planner: looped, no bitmapscan
create or replace function holdfast.admit_dispatched(ids uuid[])
returns uuid[]
language plpgsql
as $$
declare
  v_type text;
  v_group uuid[];
  v_config holdfast.dispatch_config;
  v_refused uuid[] := '{}';
begin
  for v_type, v_group in
    select dispatch_type, array_agg(id)
    from holdfast.process
    where id = any (ids) and dispatch_type is not null and leased_at is null and lease_epoch = unbegun_epoch and cancel is null
    group by dispatch_type
    order by dispatch_type
  loop
    if not pg_try_advisory_xact_lock_shared(holdfast.dispatch_gate(v_type)) then
      v_refused := v_refused || v_group;
      continue;
    end if;
    -- Read after the lock was taken, so that an earlier change of the switch is seen.
    select * into v_config from holdfast.dispatch_config where item_type = v_type;
    if found and not v_config.enabled then
      update holdfast.process set due_at = null, queued_at = null where id = any (v_group);
      v_refused := v_refused || v_group;
    elsif found then
      v_refused := v_refused || holdfast.refuse_late_processes(v_config, v_group);
    end if;
  end loop;
  return array(select id from unnest(ids) with ordinality as asked (id, place) where id <> all (v_refused) order by place);
end
$$;

-- Gives all late executions of the type new starts, if one of these is late. Returns which of these may not begin now.
-- planner: looped, no bitmapscan
create or replace function holdfast.refuse_late_processes(config holdfast.dispatch_config, ids uuid[])
returns uuid[]
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_tolerance interval := holdfast.dispatch_tolerance(config);
  v_cycle holdfast.dispatch_cycle;
  v_late uuid[];
  v_starts timestamptz[];
begin
  if v_tolerance is null then
    return '{}';
  end if;
  v_late := array(
    select id from holdfast.process_detail where id = any (ids) and start_at < v_now - v_tolerance order by start_at, id
  );
  if v_late = '{}' then
    return v_late;
  end if;
  -- All late executions, not only these: otherwise each claim would find the next late one, and nothing would begin.
  select * into v_cycle from holdfast.dispatch_cycle where item_type = config.item_type;
  v_late := array(
    select process.id
    from holdfast.process
    join holdfast.process_detail as detail on detail.id = process.id
    where process.status = 'PENDING'
      and process.type = any (v_cycle.exec_types)
      and process.created_at >= coalesce(v_cycle.ahead_since, '-infinity')
      and process.leased_at is null
      and process.lease_epoch = process.unbegun_epoch
      and process.dispatch_type = config.item_type
      and process.cancel is null
      and (process.due_at is not null or process.queued_at is not null)
      and detail.start_at < v_now - v_tolerance
    order by detail.start_at, process.id
    limit 2000
    for no key update of process skip locked
  ) || v_late;
  v_late := array(select id from unnest(v_late) with ordinality as late (id, place) group by id order by min(place));
  v_starts := holdfast.new_dispatch_starts(config, cardinality(v_late));
  if v_starts is null then
    return array(select id from unnest(v_late) as id where id = any (ids));
  end if;
  update holdfast.process_detail as detail
  set start_at = renewed.start_at, updated_at = v_now
  from unnest(v_late, v_starts) as renewed (id, start_at)
  where detail.id = renewed.id and renewed.id = renewed.id;
  update holdfast.process
  set due_at = renewed.start_at, queued_at = null
  from unnest(v_late, v_starts) as renewed (id, start_at)
  where process.id = renewed.id and renewed.id = renewed.id;
  return array(
    select renewed.id from unnest(v_late, v_starts) as renewed (id, start_at) where renewed.start_at > v_now and renewed.id = any (ids)
  );
end
$$;

-- The same for the starts of workflows: which of these instances may begin now.
-- planner: looped, no bitmapscan
create or replace function holdfast.admit_dispatched_roots(ids uuid[])
returns uuid[]
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_type text;
  v_group uuid[];
  v_config holdfast.dispatch_config;
  v_tolerance interval;
  v_late uuid[];
  v_starts timestamptz[];
  v_refused uuid[] := '{}';
begin
  for v_type, v_group in
    select dispatch_type, array_agg(id)
    from holdfast.workflow
    where id = any (ids) and dispatch_type is not null and status = 'PENDING'
    group by dispatch_type
    order by dispatch_type
  loop
    if not pg_try_advisory_xact_lock_shared(holdfast.dispatch_gate(v_type)) then
      v_refused := v_refused || v_group;
      continue;
    end if;
    select * into v_config from holdfast.dispatch_config where item_type = v_type;
    continue when not found;
    if not v_config.enabled then
      update holdfast.workflow_step
      set handler = null, due_at = null, rank = null, ready = false
      where workflow_id = any (v_group) and number = -1;
      v_refused := v_refused || v_group;
      continue;
    end if;
    v_tolerance := holdfast.dispatch_tolerance(v_config);
    continue when v_tolerance is null or not exists (
      select from holdfast.workflow_step
      where workflow_id = any (v_group) and number = -1 and scheduled_at < v_now - v_tolerance
    );
    v_late := array(
      select root.workflow_id
      from holdfast.dispatch_cycle as cycle
      join holdfast.workflow on workflow.status = 'PENDING' and workflow.name = any (cycle.exec_types)
        and workflow.created_at >= coalesce(cycle.ahead_since, '-infinity') and workflow.dispatch_type = v_type
      join holdfast.workflow_step as root on root.workflow_id = workflow.id and root.number = -1
      where cycle.item_type = v_type and root.handler is not null and root.leased_at is null
        and root.scheduled_at < v_now - v_tolerance
      order by root.scheduled_at, root.workflow_id
      limit 2000
      for no key update of root skip locked
    );
    v_starts := holdfast.new_dispatch_starts(v_config, cardinality(v_late));
    if v_starts is null then
      v_refused := v_refused || v_group;
      continue;
    end if;
    update holdfast.workflow_step as root
    set scheduled_at = renewed.start_at,
        due_at = renewed.start_at,
        ready = renewed.start_at <= v_now,
        rank = holdfast.workflow_rank(renewed.start_at, root.priority, root.aging)
    from unnest(v_late, v_starts) as renewed (id, start_at)
    where root.workflow_id = renewed.id and root.number = -1;
    v_refused := v_refused || array(
      select renewed.id from unnest(v_late, v_starts) as renewed (id, start_at) where renewed.start_at > v_now and renewed.id = any (v_group)
    );
  end loop;
  return array(select id from unnest(ids) as id where id <> all (v_refused));
end
$$;
