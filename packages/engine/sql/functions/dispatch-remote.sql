-- revision: 9
-- after: dispatch-cycle, dispatch-end, dispatch-release, dispatch-trip
--
-- Releases items to remote targets: claimed here, started there, recorded here. It also finds out what happened to starts without a
-- record and to executions that have not ended (D-13). The worker that has the lease of a cycle calls these functions; other systems
-- call `report_end`. What must not break: a claimed item is checked until its end is known, and an end is recorded once.

-- Claims up to the requested number of items with their contexts. Items that have failed before are claimed in smaller and smaller
-- batches, so that an item which ends its dispatcher does not turn others into dead letters. Items without a context fail here. Returns
-- the items; `lost` if another worker has the lease of the cycle.
-- planner: indexed
create or replace function holdfast.claim_dispatch_items(request jsonb, from_due timestamptz, from_seq bigint, slots float8[])
returns json
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_type text := request ->> 'type';
  v_config holdfast.dispatch_config;
  v_until timestamptz;
  v_most int;
  v_retries int;
  v_ids text[];
  v_last_due timestamptz;
  v_last_seq bigint;
  v_items json;
  v_bad jsonb;
begin
  if not holdfast.hold_dispatch_cycle(v_type, (request ->> 'epoch')::int) then
    return '{"outcome": "lost"}';
  end if;
  select * into v_config from holdfast.dispatch_config where item_type = v_type for share;
  if not found or not v_config.enabled or holdfast.is_dispatch_paused(v_type) then
    return '{"outcome": "off"}';
  end if;
  -- At most one cycle ahead: an item that was handed over cannot be held back any more (D-04).
  v_until := v_now + case when slots is null then least(
    v_config.pre_start_buffer_mins * interval '1 minute', v_config.dispatch_interval_secs * interval '1 second'
  ) else interval '0' end;
  -- Slots that passed before they were used are not used any more (D-14).
  if slots is not null then
    slots := array(
      select slot
      from unnest(slots) with ordinality as granted (slot, place)
      where slot >= extract(epoch from v_now - interval '250 ms') * 1000
      order by place
    );
  end if;
  v_most := least((request ->> 'most')::int, cardinality(slots));
  if v_most = 0 then
    return json_build_object('outcome', 'claimed', 'items', json_build_array(), 'claimed', 0, 'full', false);
  end if;
  select retry_count
  into v_retries
  from holdfast.dispatch_item
  where item_type = v_type and (due_at, seq) > (coalesce(from_due, '-infinity'), coalesce(from_seq, 0)) and due_at <= v_until
  order by due_at, seq
  limit 1;
  v_most := greatest(1, v_most / 4 ^ least(v_retries, 10));
  -- After a start that failed, fewer items are tried.
  if (select failures_in_row > 0 from holdfast.dispatch_cycle where item_type = v_type) then
    v_most := greatest(1, v_most / 4);
  end if;

  select * into v_ids, v_last_due, v_last_seq
  from holdfast.lock_due_items(v_type, from_due, from_seq, v_until, v_most);
  if v_ids is null then
    return json_build_object('outcome', 'claimed', 'items', json_build_array(), 'claimed', 0, 'full', false);
  end if;

  with claimed as (
    update holdfast.dispatch_item as item
    set status = 'CLAIMED',
        due_at = null,
        check_at = v_now + v_config.stale_claim_threshold_mins * interval '1 minute',
        batch_id = (request ->> 'batch')::uuid,
        execution_id = holdfast.next_execution_id(item_type, item_id, failed_executions, execution_id),
        claimed_at = v_now,
        last_error = null,
        updated_at = v_now
    where item_type = v_type and item_id = any (v_ids) and status = 'READY'
    returning item.*
  ),
  batch as (
    select claimed.*, context.context, context.notes, context.context_version, context.checked,
      case
        when slots is not null then greatest(claimed.exec_time, to_timestamp(slots[row_number() over ()] / 1000))
        else greatest(claimed.exec_time, v_now) + random() * v_config.jitter_window_ms * interval '1 ms'
      end as start_at
    from claimed
    left join lateral (
      select *
      from holdfast.dispatch_context
      where dispatch_context.item_type = v_type and dispatch_context.item_id = claimed.item_id
    ) as context on true
  )
  select
    json_agg(json_build_object(
      'itemId', item_id, 'executionId', execution_id, 'context', context, 'notes', notes, 'checked', checked,
      'contextVersion', context_version, 'initWorkflowId', init_workflow_id, 'retryCount', retry_count,
      'startAtMs', extract(epoch from start_at) * 1000, 'startDelayMs', extract(epoch from start_at - v_now) * 1000
    )) filter (where context is not null),
    jsonb_agg(jsonb_build_object(
      'type', v_type, 'id', item_id, 'from', 'CLAIMED', 'event', 'START_FAILED',
      'code', 'CONTEXT_MISSING', 'message', 'the context of the item is missing'
    )) filter (where context is null)
  into v_items, v_bad
  from batch;
  if v_bad is not null then
    perform holdfast.fail_dispatch_items(v_bad);
  end if;
  return json_build_object(
    'outcome', 'claimed', 'items', coalesce(v_items, '[]'), 'claimed', cardinality(v_ids),
    'missing', coalesce(jsonb_array_length(v_bad), 0), 'full', cardinality(v_ids) = v_most,
    'lastDue', v_last_due::text, 'lastSeq', v_last_seq::text
  );
end
$$;

-- Records the starts of a batch, with one summary. There is no fence: an item changes only if this batch still has it claimed, and a
-- start is recorded even if the lease was lost meanwhile. A failure with `unknown` says that the start may have happened: its item stays
-- CLAIMED, and the target is asked about it before it is started again (K-20).
-- planner: no seqscan
create or replace function holdfast.record_dispatch_starts(p_type text, p_batch uuid, started text[], failures jsonb, p_claimed int)
returns json
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_config holdfast.dispatch_config;
  v_started int;
  v_unknown int := 0;
  v_dead int := 0;
begin
  select * into v_config from holdfast.dispatch_config where dispatch_config.item_type = p_type;
  update holdfast.dispatch_item
  set status = 'DISPATCHED',
      dispatched_at = v_now,
      updated_at = v_now,
      check_at = greatest(v_now, exec_time) + v_config.stale_claim_threshold_mins * interval '1 minute'
  where item_type = p_type and item_id = any (started) and status = 'CLAIMED' and batch_id = p_batch;
  get diagnostics v_started = row_count;
  if jsonb_array_length(failures) > 0 then
    with unknown as (
      update holdfast.dispatch_item as item
      set check_at = v_now + least(
            v_config.stale_claim_threshold_mins * interval '1 minute',
            greatest(v_config.dispatch_interval_secs, 1) * interval '1 second'
          ),
          last_error = asked.code || ': ' || asked.message,
          updated_at = v_now
      from jsonb_to_recordset(failures) as asked (id text, code text, message text, unknown boolean)
      where item.item_type = p_type
        and item.item_id = asked.id collate "C"
        and item.status = 'CLAIMED'
        and item.batch_id = p_batch
        and asked.unknown
      returning item.item_id, item.execution_id, item.last_error
    ),
    told as (
      insert into holdfast.audit (at, model, event, subject_name, before, after, detail)
      select v_now, 'dispatch', 'START_UNKNOWN', p_type || '/' || item_id, '{"status": "CLAIMED"}', '{"status": "CLAIMED"}',
        jsonb_build_object('batchId', p_batch, 'executionId', execution_id, 'error', last_error)
      from unknown
    )
    select count(*) into v_unknown from unknown;
    v_dead := holdfast.fail_dispatch_items(coalesce((
      select jsonb_agg(it || jsonb_build_object('type', p_type, 'from', 'CLAIMED', 'event', 'START_FAILED'))
      from jsonb_array_elements(failures) as it
      join holdfast.dispatch_item as item
        on item.item_type = p_type and item.item_id = (it ->> 'id') collate "C" and item.batch_id = p_batch
      where not coalesce((it -> 'unknown')::boolean, false)
    ), '[]'));
  end if;
  insert into holdfast.audit (at, model, event, subject_name, before, after, detail)
  values (v_now, 'dispatch', 'BATCH', p_type, '{"status": "READY"}', '{"status": "DISPATCHED"}', jsonb_build_object(
    'batchId', p_batch, 'claimed', p_claimed, 'started', v_started, 'startFailures', p_claimed - v_started - v_unknown,
    'unknown', v_unknown, 'deadLetters', v_dead
  ));
  return json_build_object('started', v_started, 'dead', v_dead, 'tripped', holdfast.note_dispatch_failures(
    v_config, p_claimed - v_started, v_started, (failures -> 0 ->> 'code') || ': ' || (failures -> 0 ->> 'message')
  ));
end
$$;

-- The items to check: claims without a record, and executions that were not checked for a while. Up to four calls' worth, because a
-- round makes that many calls at the same time.
-- planner: no seqscan
create or replace function holdfast.due_dispatch_checks(p_type text)
returns table ("itemId" text, "executionId" text, status text)
language sql
stable
as $$
  select item_id, execution_id, item.status
  from holdfast.dispatch_item as item
  where item_type = p_type and check_at <= holdfast.now()
  order by check_at
  limit (select 4 * max_stale_recovery_per_cycle from holdfast.dispatch_config where dispatch_config.item_type = p_type)
$$;

-- Applies the results of checks: [{ id, execution, found, code, message }]. An item that the target could not describe is not changed,
-- and is checked again after the others.
-- planner: no seqscan
create or replace function holdfast.apply_dispatch_checks(p_type text, findings jsonb)
returns json
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_threshold interval := (
    select stale_claim_threshold_mins * interval '1 minute' from holdfast.dispatch_config where item_type = p_type
  );
  v_missing jsonb;
  v_dead int := 0;
begin
  select jsonb_agg(jsonb_build_object(
    'type', p_type, 'id', item.item_id, 'from', item.status, 'event', 'STALE_RECOVERED',
    'code', 'EXECUTION_NOT_FOUND', 'message', 'no execution was found for a ' || lower(item.status) || ' item'
      || coalesce('; its start ended with ' || case when item.status = 'CLAIMED' then item.last_error end, '')
  ))
  into v_missing
  from jsonb_to_recordset(findings) as asked (id text, execution text, found text)
  join holdfast.dispatch_item as item on item.item_type = p_type and item.item_id = asked.id collate "C"
  where asked.found = 'NOT_FOUND'
    and item.execution_id = asked.execution
    and item.check_at <= v_now;
  if v_missing is not null then
    v_dead := holdfast.fail_dispatch_items(v_missing);
  end if;
  update holdfast.dispatch_item as item
  set check_at = v_now + v_threshold,
      status = case when asked.found = 'UNKNOWN' then item.status else 'DISPATCHED' end,
      dispatched_at = case when asked.found = 'UNKNOWN' then item.dispatched_at else coalesce(item.dispatched_at, v_now) end,
      updated_at = v_now
  from jsonb_to_recordset(findings) as asked (id text, execution text, found text)
  where item.item_type = p_type
    and item.item_id = asked.id collate "C"
    and item.execution_id = asked.execution
    and item.status in ('CLAIMED', 'DISPATCHED')
    and asked.found <> 'NOT_FOUND';
  v_dead := v_dead + holdfast.end_dispatched(
    array_agg(p_type), array_agg(asked.id), array_agg(asked.execution), array_agg(asked.found),
    array_agg(asked.code), array_agg(asked.message)
  )
  from jsonb_to_recordset(findings) as asked (id text, execution text, found text, code text, message text)
  where asked.found in ('COMPLETED', 'FAILED', 'RETRY');
  return json_build_object('recovered', coalesce(jsonb_array_length(v_missing), 0), 'dead', coalesce(v_dead, 0));
end
$$;

-- The item that an execution id belongs to; null if it is not an id of this type. Types of the domain `default` once had no domain, and
-- neither had their ids.
create or replace function holdfast.item_of_execution(p_type text, p_execution text)
returns text
language sql
immutable
parallel safe
as $$
  select case
    when starts_with(p_execution, 'exec:' || p_type || ':')
      then substring(substr(p_execution, length(p_type) + 7) from '^(.*):[0-9]+$')
    when starts_with(p_type, 'default/') and starts_with(p_execution, 'exec:' || substr(p_type, 9) || ':')
      then substring(substr(p_execution, length(p_type) - 1) from '^(.*):[0-9]+$')
  end
$$;

-- Applies ends that a target reports (D-13): [{ execution, found, code, message }], with `found` as in apply_dispatch_checks. Returns for
-- each: 'done'; 'ended' if the item has ended or has another execution by now; 'unknown' if no item of the type has or had it.
-- planner: no seqscan
create or replace function holdfast.report_dispatch_ends(p_type text, ends jsonb)
returns table ("executionId" text, outcome text)
language plpgsql
as $$
declare
  v_open jsonb;
begin
  select jsonb_agg(jsonb_build_object(
    'id', item.item_id, 'execution', item.execution_id, 'found', asked.found, 'code', asked.code, 'message', asked.message
  ) order by item.item_id)
  into v_open
  from (
    select item.item_id, item.execution_id
    from jsonb_to_recordset(ends) as asked (execution text)
    join holdfast.dispatch_item as item
      on item.item_type = p_type and item.item_id = holdfast.item_of_execution(p_type, asked.execution) collate "C"
    where item.execution_id = asked.execution and item.status in ('CLAIMED', 'DISPATCHED')
    order by item.item_id
    for no key update of item
  ) as item
  join jsonb_to_recordset(ends) as asked (execution text, found text, code text, message text)
    on asked.execution = item.execution_id;
  if v_open is not null then
    perform holdfast.apply_dispatch_checks(p_type, v_open);
  end if;
  return query
  select asked.execution, case
      when exists (select from jsonb_array_elements(v_open) as it where it ->> 'execution' = asked.execution) then 'done'
      when item.item_id is null or item.execution_id is null then 'unknown'
      else 'ended'
    end
  from (
    select it ->> 'execution' as execution, place from jsonb_array_elements(ends) with ordinality as each (it, place)
  ) as asked
  left join holdfast.dispatch_item as item
    on item.item_type = p_type and item.item_id = holdfast.item_of_execution(p_type, asked.execution) collate "C"
  order by asked.place;
end
$$;

-- The same for one execution, from any language: status is COMPLETED, FAILED (technical: started again under a new id) or
-- CANCELLED (for good).
create or replace function holdfast.report_end(
  item_type text, execution_id text, status text, error_code text default null, error_message text default null
)
returns text
language plpgsql
as $$
begin
  if status not in ('COMPLETED', 'FAILED', 'CANCELLED') or status is null then
    raise exception 'an execution ends COMPLETED, FAILED or CANCELLED, not %', coalesce(status, 'null')
      using errcode = 'invalid_parameter_value';
  end if;
  return (
    select outcome
    from holdfast.report_dispatch_ends(item_type, jsonb_build_array(jsonb_build_object(
      'execution', execution_id,
      'found', case status when 'FAILED' then 'RETRY' when 'CANCELLED' then 'FAILED' else status end,
      'code', coalesce(left(error_code, 200), status),
      'message', coalesce(left(error_message, 10000), 'the execution ended ' || status)
    )))
  );
end
$$;
