-- revision: 10
-- after: dispatch-cycle, dispatch-end, dispatch-trip
--
-- Releases items to our own engine. The worker that has the lease of a cycle calls it. What must not break: claim, start and record of a
-- batch are one statement and one transaction, so that no crash can come between them (D-05, D-07); an item has one execution for each
-- of its execution ids; a worker that has lost the lease of the cycle releases nothing.

-- Releases up to the requested number of items, beginning at a watermark (the due time and seq of the last claimed item; null: at the
-- first). `slots` are the moments that a rate limit has granted, in milliseconds since 1970; without them starts are spread by the
-- jitter. Returns what happened; `lost` if another worker has the lease of the cycle.
-- planner: indexed
create or replace function holdfast.release_dispatch_items(request jsonb, from_due timestamptz, from_seq bigint, slots float8[])
returns json
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_type text := request ->> 'type';
  v_config holdfast.dispatch_config;
  v_most int;
  v_room int;
  v_ids text[];
  v_last_due timestamptz;
  v_last_seq bigint;
  v_bad jsonb;
  v_existing uuid[];
  v_dead int := 0;
  v_failed int;
  v_ahead int;
  v_tripped text;
begin
  if not holdfast.hold_dispatch_cycle(v_type, (request ->> 'epoch')::int) then
    return '{"outcome": "lost"}';
  end if;
  -- The kill switch waits for this transaction, and then sees the executions that it created.
  select * into v_config from holdfast.dispatch_config where item_type = v_type for share;
  if not found or not v_config.enabled or holdfast.is_dispatch_paused(v_type) then
    return '{"outcome": "off"}';
  end if;
  -- The database may have been restored to an earlier state since the caller stored its workflow.
  if v_config.engine = 'WORKFLOW' and not exists (
    select from holdfast.workflow_definition
    where id = (request ->> 'definitionId')::int and name = request ->> 'execType' and version = (request ->> 'version')::int
  ) then
    return '{"outcome": "unknown definition"}';
  end if;
  v_most := least((request ->> 'most')::int, cardinality(slots));
  v_room := least(v_config.max_batches_ahead::bigint * v_config.batch_size, 2147483647);
  if v_room is not null or v_config.trip_after is not null then
    v_ahead := holdfast.count_dispatched_ahead(v_type, greatest(v_room, v_config.trip_after));
    v_most := least(v_most, v_room - v_ahead);
    if v_ahead >= v_config.trip_after
      and not holdfast.has_dispatch_worker(v_config.engine, request ->> 'execType')
      and (select ahead_since < v_now - interval '2 minutes' from holdfast.dispatch_cycle where item_type = v_type)
    then
      v_tripped := holdfast.note_dispatch_failures(
        v_config, v_ahead, 0, v_ahead || ' executions of ' || (request ->> 'execType') || ' wait, and no worker has that definition'
      );
      return json_build_object('outcome', 'off', 'tripped', v_tripped);
    end if;
  end if;
  if v_most <= 0
    -- Executions that were late have got the starts of the next batches.
    or slots is null and exists (select from holdfast.dispatch_pace where dispatch_pace.item_type = v_type and until > v_now)
  then
    return json_build_object('outcome', 'ahead', 'claimed', 0);
  end if;

  -- Slots begin now: with a rate limit no item is claimed before its time.
  select * into v_ids, v_last_due, v_last_seq
  from holdfast.lock_due_items(
    v_type, from_due, from_seq, v_now + case when slots is null then v_config.pre_start_buffer_mins else 0 end * interval '1 minute', v_most
  );
  if v_ids is null then
    return json_build_object('outcome', 'released', 'claimed', 0, 'started', 0, 'failed', 0, 'dead', 0, 'full', false);
  end if;

  perform holdfast.note_exec_type(v_type, request ->> 'execType');
  begin
    select found.bad, found.existing
    into v_bad, v_existing
    from holdfast.start_dispatched(request, v_config, v_ids, slots, v_now, null) as found;
  exception when unique_violation then
    -- Searched only after a conflict: a search before every insert costs more than all inserts together.
    select found.bad, found.existing
    into v_bad, v_existing
    from holdfast.start_dispatched(
      request, v_config, v_ids, slots, v_now, holdfast.taken_executions(v_config, v_ids, request ->> 'execType')
    ) as found;
  end;
  if v_bad is not null then
    v_dead := holdfast.fail_dispatch_items(v_bad);
  end if;
  if v_existing is not null then
    -- These executions exist, although their items were set back by hand. If they have ended, their items end now.
    if v_config.engine = 'WORKFLOW' then
      perform holdfast.end_dispatched_workflows(v_existing);
    else
      perform holdfast.end_dispatched_processes(v_existing);
    end if;
  end if;
  v_failed := coalesce(jsonb_array_length(v_bad), 0);
  v_tripped := holdfast.note_dispatch_failures(
    v_config, v_failed, cardinality(v_ids) - v_failed, (v_bad -> 0 ->> 'code') || ': ' || (v_bad -> 0 ->> 'message')
  );
  perform holdfast.wake(case v_config.engine when 'WORKFLOW' then 'workflows:_root_' else 'processes:' || (request ->> 'execType') end);
  insert into holdfast.audit (at, model, event, subject_name, before, after, detail)
  values (v_now, 'dispatch', 'BATCH', v_type, '{"status": "READY"}', '{"status": "DISPATCHED"}', jsonb_build_object(
    'batchId', request ->> 'batch', 'claimed', cardinality(v_ids), 'started', cardinality(v_ids) - v_failed,
    'startFailures', v_failed, 'deadLetters', v_dead
  ));
  return json_build_object(
    'outcome', 'released', 'claimed', cardinality(v_ids), 'started', cardinality(v_ids) - v_failed, 'failed', v_failed,
    'full', cardinality(v_ids) = v_most, 'lastDue', v_last_due::text, 'lastSeq', v_last_seq::text, 'tripped', v_tripped
  );
end
$$;

-- Records which definitions were started for a type: the kill switch searches their executions for those that have not begun.
create or replace function holdfast.note_exec_type(p_type text, p_exec_type text)
returns void
language sql
as $$
  update holdfast.dispatch_cycle
  set exec_types = exec_types || p_exec_type
  where item_type = p_type and p_exec_type <> all (exec_types)
$$;

-- The id of an execution, built so that no two different triples give the same id (D-07): a type has no colon, and the text after the
-- last colon is the number. An item id may be any text, so it stands between them.
create or replace function holdfast.execution_id(item_type text, item_id text, failed_executions int)
returns text
language sql
immutable
parallel safe
begin atomic
  select 'exec:' || item_type || ':' || item_id || ':' || failed_executions;
end;

-- The id of an item's next execution. An item that was tried before keeps its id, also if that has the older form without a domain, so
-- that an earlier start of unknown outcome is recognised. After a failed execution the id is new.
create or replace function holdfast.next_execution_id(item_type text, item_id text, failed_executions int, last_id text)
returns text
language sql
immutable
parallel safe
begin atomic
  select case
    when right(last_id, length(':' || failed_executions)) = ':' || failed_executions then last_id
    else holdfast.execution_id(item_type, item_id, failed_executions)
  end;
end;

-- Whether an operator has paused the domain or the type (K-18).
create or replace function holdfast.is_dispatch_paused(item_type text)
returns boolean
language sql
stable
as $$
  select holdfast.is_paused(array['domain:' || split_part(item_type, '/', 1), 'definition:' || item_type])
$$;

-- Which of these items have an execution id that is in use: { item: [execution, whether it is the item's own] }.
create or replace function holdfast.taken_executions(config holdfast.dispatch_config, ids text[], p_exec_type text)
returns jsonb
language sql
stable
as $$
  select jsonb_object_agg(item.item_id, jsonb_build_array(
    coalesce(detail.id, workflow.id),
    coalesce(detail.dispatch_item, workflow.dispatch_item) is not distinct from item.item_id
  ))
  from holdfast.dispatch_item as item
  cross join lateral (
    select holdfast.next_execution_id(item.item_type, item.item_id, item.failed_executions, item.execution_id)
  ) as execution (id)
  left join holdfast.process_detail as detail
    on config.engine = 'PROCESS' and detail.type = p_exec_type and detail.key = execution.id
  left join holdfast.workflow
    on config.engine = 'WORKFLOW' and workflow.name = p_exec_type and workflow.key = execution.id
  where item.item_type = config.item_type
    and item.item_id = any (ids)
    and (detail.id is not null or workflow.id is not null)
$$;

-- Creates the executions of a batch of locked items, and marks the items DISPATCHED. An execution is a process, or a workflow whose
-- first steps are decided by the worker that claims its start. Returns the items that could not be started, in the form of
-- fail_dispatch_items, and the executions that existed already.
-- planner: indexed
create or replace function holdfast.start_dispatched(
  request jsonb, config holdfast.dispatch_config, ids text[], slots float8[], p_now timestamptz, taken jsonb
)
returns table (bad jsonb, existing uuid[])
language plpgsql
as $$
declare
  v_is_process boolean := config.engine = 'PROCESS';
  v_exec_type text := request ->> 'execType';
  v_version int := (request ->> 'version')::int;
  v_context_version int := (request ->> 'contextVersion')::int;
  v_redirected boolean := (request ->> 'redirected')::boolean;
  v_definition int := (request ->> 'definitionId')::int;
  -- Ids of one batch are close together in the index, like the ids that clients generate.
  v_prefix text := lpad(to_hex(floor(extract(epoch from p_now) * 1000)::bigint), 12, '0');
  v_ids uuid[];
  v_starts timestamptz[];
  v_unchecked boolean[];
begin
  v_prefix := substr(v_prefix, 1, 8) || '-' || substr(v_prefix, 9, 4) || '-7';
  with claimed as (
    update holdfast.dispatch_item as item
    set status = 'DISPATCHED',
        due_at = null,
        batch_id = (request ->> 'batch')::uuid,
        execution_id = holdfast.next_execution_id(item_type, item_id, failed_executions, execution_id),
        claimed_at = p_now,
        dispatched_at = p_now,
        updated_at = p_now
    where item_type = config.item_type and item_id = any (ids) and status = 'READY'
    returning item.item_id, item.execution_id, item.exec_time
  ),
  batch as materialized (
    select
      claimed.item_id, claimed.execution_id, context.context, context.details,
      context.checked and context.context_version = v_context_version and not v_redirected as checked,
      -- The worker that executes it parses and encodes it again. Notes say so, so they are not null.
      case
        when context.checked and (context.context_version <> v_context_version or v_redirected)
          then coalesce(context.notes, '{}')
        else context.notes
      end as notes,
      overlay(gen_random_uuid()::text placing v_prefix from 1 for 15)::uuid as id,
      (taken -> claimed.item_id ->> 0)::uuid as taken_id, (taken -> claimed.item_id ->> 1)::boolean as is_own,
      case
        when slots is not null then greatest(claimed.exec_time, to_timestamp(slots[row_number() over ()] / 1000))
        else greatest(claimed.exec_time, p_now) + random() * config.jitter_window_ms * interval '1 ms'
      end as start_at
    from claimed
    left join lateral (
      select *
      from holdfast.dispatch_context
      where dispatch_context.item_type = config.item_type and dispatch_context.item_id = claimed.item_id
    ) as context on true
  ),
  details as (
    insert into holdfast.process_detail (
      id, type, model, key, created_at, start_at, updated_at, state, state_notes, state_checked, dispatch_item
    )
    select id, v_exec_type, 'PROCESS_STEP', execution_id, p_now, start_at, p_now, context, notes, checked, item_id
    from batch
    where v_is_process and context is not null and taken_id is null
  ),
  processes as (
    insert into holdfast.process (id, type, version, status, due_at, created_at, deadline_at, dispatch_type, unbegun_epoch)
    select id, v_exec_type, v_version, 'PENDING', start_at, p_now,
      case when batch.details is not null then coalesce(
        to_timestamp((batch.details ->> 'deadline_ms')::float8 / 1000),
        start_at + (batch.details ->> 'deadline_in_ms')::float8 * interval '1 ms'
      ) end,
      config.item_type, 0
    from batch
    where v_is_process and context is not null and taken_id is null
  ),
  workflows as (
    insert into holdfast.workflow (
      id, definition_id, name, version, key, status, created_at, updated_at, input, input_notes, dispatch_type, dispatch_item
    )
    select id, v_definition, v_exec_type, v_version, execution_id, 'PENDING', p_now, p_now, context, notes, config.item_type, item_id
    from batch
    where not v_is_process and context is not null and taken_id is null
  )
  select
    jsonb_agg(jsonb_build_object(
      'type', config.item_type, 'id', item_id, 'from', 'DISPATCHED', 'event', 'START_FAILED',
      'code', case when context is null then 'CONTEXT_MISSING' else 'EXECUTION_ID_TAKEN' end,
      'message', case
        when context is null then 'the context of the item is missing'
        else 'the execution id ' || execution_id || ' is that of something else'
      end,
      -- The next attempt uses another id.
      'execution', case when context is not null then execution_id end
    )) filter (where context is null or not is_own),
    array_agg(taken_id) filter (where context is not null and is_own),
    array_agg(id) filter (where not v_is_process and context is not null and taken_id is null),
    array_agg(start_at) filter (where not v_is_process and context is not null and taken_id is null),
    array_agg(not checked) filter (where not v_is_process and context is not null and taken_id is null)
  into bad, existing, v_ids, v_starts, v_unchecked
  from batch;
  if v_ids is not null then
    perform holdfast.queue_instance_starts(v_ids, array_fill(v_definition, array[cardinality(v_ids)]), v_starts, v_unchecked);
  end if;
  return next;
end
$$;
