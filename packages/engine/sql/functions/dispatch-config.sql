-- revision: 8
-- after: kernel, dispatch-begin
--
-- The configuration of dispatch (D-02) and its kill switch. They are triggers, because any program may write the row. What must not
-- break: a setting out of its bounds is refused, every change is audited, and executions of a type that is switched off do not begin
-- until it is switched on again.

-- Refuses with a message what the constraints of the table refuse with a code. The API passes the message on.
create or replace function holdfast.check_dispatch_config()
returns trigger
language plpgsql
as $$
declare
  v_column text;
  v_low numeric;
  v_high numeric;
  v_value numeric;
begin
  if to_jsonb(new) - array['rate_limit_key', 'max_batches_ahead', 'trip_after', 'exec_workflow_type', 'exec_task_queue'] @? '$.* ? (@ == null)' then
    select key into v_column
    from jsonb_each(to_jsonb(new) - array['rate_limit_key', 'max_batches_ahead', 'trip_after', 'exec_workflow_type', 'exec_task_queue'])
    where value = 'null' limit 1;
    raise exception '% must not be null', v_column using errcode = 'check_violation', column = v_column;
  end if;
  for v_column, v_low, v_high in values
    ('batch_size', 1, 100000),
    ('dispatch_interval_secs', 0, 86400),
    ('jitter_window_ms', 0, 86400000),
    ('pre_start_buffer_mins', 0, 1440),
    ('max_dispatch_retries', 1, 1000),
    ('stale_claim_threshold_mins', 0.001, 1440),
    ('max_stale_recovery_per_cycle', 1, 10000),
    ('max_batches_ahead', 1, 100000),
    ('trip_after', 1, 1000000)
  loop
    -- NaN and infinity are strings in JSON, and out of every range.
    v_value := case when to_jsonb(new) ->> v_column ~ '^[-+0-9.eE]+$' then (to_jsonb(new) ->> v_column)::numeric end;
    if to_jsonb(new) ->> v_column is not null and (v_value is null or v_value not between v_low and v_high) then
      raise exception '% must be from % to %, not %', v_column, v_low, v_high, to_jsonb(new) ->> v_column
        using errcode = 'check_violation', column = v_column;
    end if;
  end loop;
  if new.engine = 'PROCESS' and new.exec_workflow_type is not null
    and not exists (select from holdfast.worker_definition where model = 'processes' and name = new.exec_workflow_type)
  then
    raise exception 'exec_workflow_type names `%`, which no worker has registered', new.exec_workflow_type
      using errcode = 'check_violation', column = 'exec_workflow_type';
  end if;
  if new.engine = 'WORKFLOW' and new.exec_workflow_type is not null
    and not exists (
      select from holdfast.workflow_definition
      where new.exec_workflow_type in (name, name || '-v' || version)
    )
  then
    raise exception 'exec_workflow_type names `%`, which is no workflow that is stored', new.exec_workflow_type
      using errcode = 'check_violation', column = 'exec_workflow_type';
  end if;
  if new.rate_limit_key is not null
    and not exists (select from holdfast.rate_limit where resource_key = new.rate_limit_key)
  then
    raise exception 'rate_limit_key names `%`, which is no rate limit', new.rate_limit_key
      using errcode = 'check_violation', column = 'rate_limit_key';
  end if;
  if tg_op = 'UPDATE' then
    new.updated_at := holdfast.now();
  end if;
  return new;
end
$$;

create or replace trigger dispatch_config_is_sound
before insert or update on holdfast.dispatch_config
for each row execute function holdfast.check_dispatch_config();

-- Audits every change (K-12), with actor and reason if the API knows them. Switching a type off removes the due time of executions that
-- were dispatched to our own engine and have not begun (D-04); switching it on restores it.
create or replace function holdfast.carry_out_dispatch_config()
returns trigger
language plpgsql
as $$
declare
  v_before jsonb := to_jsonb(old) - 'updated_at';
  v_after jsonb := to_jsonb(new) - 'updated_at';
  v_actor text := coalesce(nullif(current_setting('hf_dispatch.actor', true), ''), session_user::text);
  v_reason text := coalesce(nullif(current_setting('hf_dispatch.reason', true), ''), 'changed by SQL');
  v_held int;
begin
  if v_before = v_after then
    return null;
  end if;
  if old.enabled and not new.enabled then
    v_held := holdfast.hold_dispatched(new.item_type, new.engine);
  elsif new.enabled and not old.enabled then
    v_held := holdfast.unhold_dispatched(new.item_type, new.engine);
  end if;
  -- The next cycle uses the change at once, not after the old interval. A cycle that a worker has leased is not changed: it may be
  -- waiting for this very row, and reads the configuration again by itself.
  update holdfast.dispatch_cycle
  set due_at = holdfast.now()
  where item_type = any (array(
    select item_type
    from holdfast.dispatch_cycle
    where item_type = new.item_type and leased_at is null
    for no key update skip locked
  ));
  insert into holdfast.audit (at, model, event, subject_name, actor, reason, before, after, detail)
  select holdfast.now(), 'dispatch', 'CONFIGURED', new.item_type, v_actor, v_reason,
    (select jsonb_object_agg(key, value) from jsonb_each(v_before) where value is distinct from v_after -> key),
    (select jsonb_object_agg(key, value) from jsonb_each(v_after) where value is distinct from v_before -> key),
    case when v_held is not null then jsonb_build_object('executionsNotBegun', v_held) end;
  perform holdfast.wake('dispatch');
  return null;
end
$$;

create or replace trigger dispatch_config_is_carried_out
after update on holdfast.dispatch_config
for each row execute function holdfast.carry_out_dispatch_config();

-- A release holds the row of the configuration FOR SHARE until it commits, and a claim shares the advisory lock, so none is in flight
-- that this function would miss. Executions are locked in the order of ids, as everywhere.
-- planner: no seqscan
create or replace function holdfast.hold_dispatched(p_type text, p_engine text)
returns int
language plpgsql
as $$
declare
  v_types text[] := (select exec_types from holdfast.dispatch_cycle where item_type = p_type);
  v_count int;
begin
  perform pg_advisory_xact_lock(holdfast.dispatch_gate(p_type));
  if p_engine = 'WORKFLOW' then
    -- No worker claims a start without a due time.
    update holdfast.workflow_step
    set handler = null, due_at = null, rank = null, ready = false
    where number = -1
      and workflow_id = any (holdfast.dispatched_starts(p_type, v_types))
      and leased_at is null;
  else
    update holdfast.process
    set due_at = null, queued_at = null
    where id = any (array(
      select id
      from holdfast.process
      where status = 'PENDING'
        and type = any (v_types)
        and leased_at is null
        and lease_epoch = unbegun_epoch
        and cancel is null
        and dispatch_type = p_type
      order by id
      for no key update
    ));
  end if;
  get diagnostics v_count = row_count;
  return v_count;
end
$$;

-- Counts executions that a worker has claimed and may not have begun yet. A worker releases what it has claimed and not begun after
-- less than two seconds (kill-switch.ts). The start of a workflow begins with one write.
-- planner: no seqscan
create or replace function holdfast.count_dispatched_beginning(p_type text)
returns int
language plpgsql
stable
as $$
declare
  v_now timestamptz := holdfast.now();
  v_types text[] := (select exec_types from holdfast.dispatch_cycle where item_type = p_type);
begin
  return (
    select count(*)
    from holdfast.process
    where type = any (v_types)
      and due_at is not null
      and leased_at > v_now - interval '2 seconds'
      and unbegun_epoch = lease_epoch - 1
      and dispatch_type = p_type
  ) + (
    select count(*)
    from holdfast.workflow
    join holdfast.workflow_step as root on root.workflow_id = workflow.id and root.number = -1
    where workflow.status = 'PENDING' and workflow.name = any (v_types) and workflow.dispatch_type = p_type
      and root.leased_at > v_now - interval '2 seconds'
  );
end
$$;

-- planner: no seqscan
create or replace function holdfast.unhold_dispatched(p_type text, p_engine text)
returns int
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_types text[] := (select exec_types from holdfast.dispatch_cycle where item_type = p_type);
  v_type text;
  v_count int;
begin
  -- A claim that saw the switch off may be holding an execution back right now: wait for it, so that the statements below see it.
  perform pg_advisory_xact_lock(holdfast.dispatch_gate(p_type));
  if p_engine = 'WORKFLOW' then
    update holdfast.workflow_step
    set handler = name,
        due_at = greatest(v_now, scheduled_at),
        ready = scheduled_at <= v_now,
        rank = holdfast.workflow_rank(scheduled_at, priority, aging)
    where number = -1
      and workflow_id = any (holdfast.dispatched_starts(p_type, v_types))
      and handler is null;
    get diagnostics v_count = row_count;
    perform holdfast.wake('workflows:_root_');
    return v_count;
  end if;
  update holdfast.process
  set due_at = greatest(v_now, detail.start_at)
  from holdfast.process_detail as detail
  where detail.id = process.id
    and process.id = any (array(
      select id
      from holdfast.process
      where status = 'PENDING'
        and type = any (v_types)
        and leased_at is null
        and lease_epoch = unbegun_epoch
        and due_at is null
        and queued_at is null
        and cancel is null
        and dispatch_type = p_type
      order by id
      for no key update
    ));
  get diagnostics v_count = row_count;
  foreach v_type in array coalesce(v_types, '{}') loop
    perform holdfast.wake('processes:' || v_type);
  end loop;
  return v_count;
end
$$;

-- The instances of an item type that have not begun; their starts are locked.
create or replace function holdfast.dispatched_starts(p_type text, names text[])
returns uuid[]
language sql
as $$
  select array(
    select workflow.id
    from holdfast.workflow
    join holdfast.workflow_step as root on root.workflow_id = workflow.id and root.number = -1
    where workflow.status = 'PENDING' and workflow.name = any (names) and workflow.dispatch_type = p_type
    order by workflow.id
    for no key update of root
  )
$$;

-- Sets the settings that are named in `changes`; others stay. Returns whether the type is known.
create or replace function holdfast.set_dispatch_config(p_type text, changes jsonb)
returns boolean
language plpgsql
as $$
declare
  v_row holdfast.dispatch_config;
begin
  select * into v_row from holdfast.dispatch_config where item_type = p_type for no key update;
  if not found then
    return false;
  end if;
  v_row := jsonb_populate_record(v_row, changes - array['item_type', 'engine', 'created_at', 'updated_at']);
  update holdfast.dispatch_config
  set enabled = v_row.enabled, batch_size = v_row.batch_size, dispatch_interval_secs = v_row.dispatch_interval_secs,
      jitter_window_ms = v_row.jitter_window_ms, pre_start_buffer_mins = v_row.pre_start_buffer_mins,
      max_dispatch_retries = v_row.max_dispatch_retries, stale_claim_threshold_mins = v_row.stale_claim_threshold_mins,
      max_stale_recovery_per_cycle = v_row.max_stale_recovery_per_cycle, max_batches_ahead = v_row.max_batches_ahead,
      trip_after = v_row.trip_after,
      exec_workflow_type = v_row.exec_workflow_type, exec_task_queue = v_row.exec_task_queue,
      rate_limit_key = v_row.rate_limit_key
  where item_type = p_type;
  return true;
end
$$;

-- The same for an operator, with actor and reason. Both are settings of the transaction and end with it.
create or replace function holdfast.configure_dispatch(p_type text, changes jsonb, p_actor text, p_reason text)
returns boolean
language plpgsql
as $$
declare
  v_known boolean;
begin
  perform set_config('hf_dispatch.actor', p_actor, true), set_config('hf_dispatch.reason', p_reason, true);
  v_known := holdfast.set_dispatch_config(p_type, changes);
  perform set_config('hf_dispatch.actor', '', true), set_config('hf_dispatch.reason', '', true);
  return v_known;
end
$$;

-- Switches a type on and resumes a window that has stopped by itself. Returns whether the type is known.
create or replace function holdfast.resume_dispatch(p_type text, p_actor text, p_reason text)
returns boolean
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_before holdfast.dispatch_cycle;
begin
  if not holdfast.configure_dispatch(p_type, '{"enabled": true}', p_actor, p_reason) then
    return false;
  end if;
  select * into v_before from holdfast.dispatch_cycle where item_type = p_type for no key update;
  if v_before.tripped_at is not null or v_before.failures_in_row > 0 then
    update holdfast.dispatch_cycle
    set tripped_at = null, trip_reason = null, failures_in_row = 0,
        due_at = case when leased_at is null then v_now else due_at end
    where item_type = p_type;
  end if;
  if v_before.tripped_at is not null then
    insert into holdfast.audit (at, model, event, subject_name, actor, reason, before, after)
    values (v_now, 'dispatch', 'RESUMED', p_type, p_actor, p_reason,
      jsonb_build_object('tripped', true, 'reason', v_before.trip_reason), '{"tripped": false}');
    perform holdfast.wake('dispatch');
  end if;
  return true;
end
$$;
