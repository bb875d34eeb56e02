-- revision: 9
-- after: kernel
--
-- Schedules dispatch items. The library and `holdfast.schedule` call it. It only inserts unless `replace` is given, so it may run in a
-- caller's transaction. What must not break: scheduling the same item again changes nothing; another time or context is refused, or
-- replaces the item on record; an item never exists without its context.

-- Creates the rows of a new item type. Existing rows stay as operators have set them.
create or replace function holdfast.note_dispatch(p_type text, p_engine text, settings jsonb)
returns void
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_defaults holdfast.dispatch_config;
begin
  if exists (select from holdfast.dispatch_config where item_type = p_type and engine = p_engine)
    and exists (select from holdfast.dispatch_cycle where item_type = p_type)
    and (p_engine <> 'REMOTE' or exists (select from holdfast.dispatch_cycle where item_type = p_type || ':checks'))
  then
    return;
  end if;
  insert into holdfast.dispatch_config (item_type, engine, created_at, updated_at)
  values (p_type, p_engine, v_now, v_now)
  on conflict (item_type) do nothing
  returning * into v_defaults;
  if found then
    perform holdfast.set_dispatch_config(p_type, settings);
  else
    update holdfast.dispatch_config
    set engine = p_engine, exec_workflow_type = null, exec_task_queue = null, updated_at = v_now
    where item_type = p_type and engine <> p_engine;
  end if;
  insert into holdfast.dispatch_cycle (item_type, due_at) values (p_type, v_now) on conflict (item_type) do nothing;
  -- Checks of remote executions are a cycle of its own, beside the cycle of releases (D-13). No type has a colon.
  if p_engine = 'REMOTE' then
    insert into holdfast.dispatch_cycle (item_type, due_at) values (p_type || ':checks', v_now)
    on conflict (item_type) do nothing;
  end if;
end
$$;

-- Schedules items: `{ type, replace, version, checked, items: [[id, exec time in ms, context, notes, init workflow, details]] }`.
-- Returns how many are new, and for each of the others its place and the result: 'same', 'replaced', or why it is refused: 'other time',
-- 'other context', or the status of an item that was to be replaced.
-- planner: indexed
create or replace function holdfast.schedule_items(request jsonb)
returns json
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_type text := request ->> 'type';
  v_items jsonb := request -> 'items';
  v_version int := (request ->> 'version')::int;
  v_checked boolean := (request ->> 'checked')::boolean;
  v_created int;
  v_new text[];
begin
  if not exists (select from holdfast.dispatch_config where item_type = v_type) then
    -- The caller has registered the type before, so the database was restored to an earlier state: the caller registers it again.
    if (request ->> 'noted')::boolean then
      return '{"created": 0, "unknown": true}';
    end if;
    raise exception 'unknown item type %: define it, or insert its row into dispatch_config', coalesce(v_type, 'null')
      using errcode = 'HF002';
  end if;
  with created as (
    insert into holdfast.dispatch_item (
      item_type, item_id, exec_time, due_at, context_hash, init_workflow_id, created_at, updated_at
    )
    select v_type, it ->> 0, at.exec_time, at.exec_time, holdfast.context_hash(it -> 2, it -> 3), it ->> 4, v_now, v_now
    from jsonb_array_elements(v_items) as it,
    lateral (select to_timestamp((it -> 1)::float8 / 1000) as exec_time) as at
    on conflict (item_type, item_id) do nothing
    returning item_id
  )
  select array_agg(item_id), count(*) into v_new, v_created from created;

  if v_created = jsonb_array_length(v_items) then
    insert into holdfast.dispatch_context (
      item_type, item_id, context, notes, context_version, checked, details, created_at, updated_at
    )
    select v_type, it ->> 0, it -> 2, nullif(it -> 3, 'null'), v_version, v_checked, nullif(it -> 5, 'null'), v_now, v_now
    from jsonb_array_elements(v_items) as it;
    return json_build_object('created', v_created);
  end if;
  insert into holdfast.dispatch_context (
    item_type, item_id, context, notes, context_version, checked, details, created_at, updated_at
  )
  select v_type, it ->> 0, it -> 2, nullif(it -> 3, 'null'), v_version, v_checked, nullif(it -> 5, 'null'), v_now, v_now
  from jsonb_array_elements(v_items) as it
  where it ->> 0 = any (v_new)
  -- The same item twice in one call: the second is compared with the first.
  on conflict (item_type, item_id) do nothing;
  return json_build_object('created', v_created, 'others', (
    select json_agg(json_build_array(asked.place - 1, found.outcome) order by asked.place)
    from jsonb_array_elements(v_items) with ordinality as asked (it, place),
    lateral (select holdfast.meet_scheduled(v_type, asked.it, v_version, v_checked, (request ->> 'replace')::boolean, v_now) as outcome) as found
    where asked.it ->> 0 <> all (coalesce(v_new, '{}')) or found.outcome <> 'same'
  ));
end
$$;

-- The same for a flush of many callers, which must not wait for another open transaction (K-05).
create or replace function holdfast.flush_schedule(request jsonb)
returns json
language sql
set lock_timeout = '100ms'
as $$
  select holdfast.schedule_items(request)
$$;

-- Identifies a context after the context itself is deleted.
create or replace function holdfast.context_hash(context jsonb, notes jsonb)
returns bigint
language sql
immutable
parallel safe
begin atomic
  select jsonb_hash_extended(context, 0) # jsonb_hash_extended(coalesce(notes, 'null'), 1);
end;

-- An item that exists already: the same, or replaced if that was requested and it is still READY (D-01).
-- planner: no seqscan
create or replace function holdfast.meet_scheduled(
  p_type text, it jsonb, p_version int, p_checked boolean, p_replace boolean, p_now timestamptz
)
returns text
language plpgsql
as $$
declare
  v_time timestamptz := to_timestamp((it -> 1)::float8 / 1000);
  v_hash bigint := holdfast.context_hash(it -> 2, it -> 3);
  v_there holdfast.dispatch_item;
begin
  select * into v_there from holdfast.dispatch_item where item_type = p_type and item_id = it ->> 0;
  if v_there.exec_time = v_time and v_there.context_hash = v_hash then
    return 'same';
  end if;
  if not coalesce(p_replace, false) then
    return case when v_there.exec_time = v_time then 'other context' else 'other time' end;
  end if;
  update holdfast.dispatch_item
  set exec_time = v_time, due_at = v_time, context_hash = v_hash, init_workflow_id = it ->> 4, updated_at = p_now
  where item_type = p_type and item_id = it ->> 0 and status = 'READY';
  if not found then
    return (select status from holdfast.dispatch_item where item_type = p_type and item_id = it ->> 0);
  end if;
  insert into holdfast.dispatch_context (
    item_type, item_id, context, notes, context_version, checked, details, created_at, updated_at
  )
  values (p_type, it ->> 0, it -> 2, nullif(it -> 3, 'null'), p_version, p_checked, nullif(it -> 5, 'null'), p_now, p_now)
  on conflict (item_type, item_id) do update
  set context = excluded.context, notes = excluded.notes, context_version = excluded.context_version,
      checked = excluded.checked, details = excluded.details, updated_at = excluded.updated_at;
  insert into holdfast.audit (at, model, event, subject_name, before, after)
  values (p_now, 'dispatch', 'RESCHEDULED', p_type || '/' || v_there.item_id,
    jsonb_build_object('status', 'READY', 'execTime', v_there.exec_time),
    jsonb_build_object('status', 'READY', 'execTime', v_time));
  return 'replaced';
end
$$;
