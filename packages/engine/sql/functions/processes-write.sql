-- revision: 10
-- after: kernel
--
-- The writes of executions: history, and the state in which an execution suspends or ends. One statement for many executions (K-05).
-- What must not break: the statement locks the row of the process and compares its epoch, so that an execution that has lost its lease
-- writes nothing; history, status, audit and sent commands change together.

-- Each write names its process and epoch and brings events. A write with a `to_status` also ends the execution: the process is suspended
-- with that status until `due_ms`, or has ended. A process is suspended only if no response and no cancellation has come that the
-- execution has not seen; otherwise nothing is written, and these are returned (P-11, P-16).
-- Returns, in order: 0 done, 1 lease lost, 2 locked by another transaction, or what has come.
-- planner: indexed
create or replace function holdfast.write_processes(writes jsonb)
returns json
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_mine uuid[];
  v_writes jsonb := writes;
  v_events int;
  v_inserted int;
  v_rests boolean;
begin
  -- The fence: the row is locked and its epoch compared, in the order of ids, which is the order of the writes.
  select array_agg(locked.id)
  into v_mine
  from jsonb_to_recordset(writes) as asked (id uuid, epoch int, to_status text, responses int, heard_cancel boolean)
  cross join lateral (
    select process.id
    from holdfast.process
    where process.id = asked.id
      and process.lease_epoch = asked.epoch
      and (
        asked.to_status is null
        or process.responses = asked.responses and (process.cancel is null or asked.heard_cancel)
      )
    for no key update skip locked
  ) as locked;
  if v_mine is null then
    return holdfast.process_write_answers(writes, '{}');
  end if;
  if cardinality(v_mine) < jsonb_array_length(writes) then
    select jsonb_agg(it order by place) into v_writes
    from jsonb_array_elements(writes) with ordinality as asked (it, place)
    where (it ->> 'id')::uuid = any (v_mine);
  end if;

  insert into holdfast.process_history (
    process_id, generation, seq, epoch, at, kind, name, occurrence, status, attempt, seen, next_at, result, notes, detail
  )
  select
    asked.id, asked.generation, event.seq, asked.epoch, to_timestamp(event.at / 1000), event.kind, event.name,
    event.occurrence, event.status, event.attempt, event.seen, to_timestamp(event.next_at / 1000), event.result,
    event.notes, event.detail
  from jsonb_to_recordset(v_writes) as asked (id uuid, epoch int, generation int, events jsonb)
  cross join lateral jsonb_to_recordset(asked.events) as event (
    seq int, at float8, kind text, name text, occurrence int, status text, attempt int, seen int, next_at float8,
    result jsonb, notes jsonb, detail jsonb
  )
  on conflict (process_id, generation, seq) do nothing;
  get diagnostics v_inserted = row_count;
  select sum(jsonb_array_length(it -> 'events')), bool_or(it ? 'to_status')
  into v_events, v_rests
  from jsonb_array_elements(v_writes) as it;
  if v_inserted < v_events then
    -- Ours, from an earlier flush whose response was lost. Anything else means that two executions wrote one history.
    if exists (
      select
      from jsonb_to_recordset(v_writes) as asked (id uuid, epoch int, generation int, events jsonb)
      cross join lateral jsonb_to_recordset(asked.events) as event (seq int)
      join holdfast.process_history as history
        on history.process_id = asked.id and history.generation = asked.generation and history.seq = event.seq
      where history.epoch <> asked.epoch
    ) then
      raise exception 'the history of a process was written by another epoch' using errcode = 'data_corrupted';
    end if;
  end if;
  if v_rests then
    perform holdfast.rest_processes(v_writes, v_now);
  end if;
  if cardinality(v_mine) = jsonb_array_length(writes) then
    return null;
  end if;
  return holdfast.process_write_answers(writes, v_mine);
end
$$;

-- planner: indexed
create or replace function holdfast.rest_processes(writes jsonb, v_now timestamptz)
returns void
language plpgsql
as $$
declare
  v_type text;
  v_parents boolean;
  v_batches boolean;
  v_items boolean;
  v_ended uuid[];
begin
  update holdfast.process
  set status = asked.to_status,
      due_at = to_timestamp(asked.due_ms / 1000),
      lease_epoch = lease_epoch + 1,
      -- Given if the execution did not replay the whole history: what is known of an earlier interruption is kept (K-19).
      rested_epoch = coalesce(asked.rested, lease_epoch + 1),
      leased_by = null,
      leased_at = null,
      last_write = asked.token,
      generation = process.generation + case when asked.continues then 1 else 0 end,
      cancel = case when asked.ended then null else cancel end,
      mismatch_since = case when asked.mismatch then coalesce(mismatch_since, v_now) end
  from jsonb_to_recordset(writes) as asked (
    id uuid, epoch int, token uuid, to_status text, due_ms float8, continues boolean, ended boolean, mismatch boolean,
    rested int
  )
  where process.id = asked.id and asked.to_status is not null and asked.epoch = asked.epoch + 0;

  with rested as (
    update holdfast.process_detail
    set updated_at = v_now,
        ended_at = case when asked.ended then v_now end,
        undone = asked.undone,
        start_at = case when asked.continues then v_now else start_at end,
        state = case when asked.continues then asked.projection else state end,
        state_notes = case when asked.continues then asked.projection_notes else state_notes end,
        state_responses = case when asked.continues then asked.seen else state_responses end,
        state_unmet = case when asked.continues then asked.unmet else state_unmet end,
        state_events = case when asked.continues then asked.asked_events else state_events end,
        projection = case when asked.has_projection then asked.projection else process_detail.projection end,
        projection_notes = case when asked.has_projection then asked.projection_notes else process_detail.projection_notes end,
        projection_responses = case when asked.has_projection then asked.seen else projection_responses end,
        result = asked.result,
        result_notes = asked.result_notes,
        waiting_for = asked.waiting_for,
        wait_timeout_at = to_timestamp(asked.wait_timeout_ms / 1000),
        next_retry_at = to_timestamp(asked.next_retry_ms / 1000),
        error_kind = asked.error ->> 'kind',
        error_code = asked.error ->> 'code',
        error_message = asked.error ->> 'message'
    from jsonb_to_recordset(writes) as asked (
      id uuid, epoch int, to_status text, continues boolean, ended boolean, has_projection boolean, projection jsonb,
      undone boolean, projection_notes jsonb, seen int, unmet jsonb, asked_events jsonb, result jsonb, result_notes jsonb,
      waiting_for text, wait_timeout_ms float8,
      next_retry_ms float8, error jsonb
    )
    where process_detail.id = asked.id and asked.to_status is not null and asked.epoch = asked.epoch + 0
    returning process_detail.parent_id, process_detail.batch_id, process_detail.dispatch_item
  )
  select bool_or(parent_id is not null), bool_or(batch_id is not null), bool_or(dispatch_item is not null)
  into v_parents, v_batches, v_items
  from rested;

  if writes @> '[{"to_status": "WAITING_FOR_TSQ"}]' then
    insert into holdfast.process_trouble (
      id, type, since, step, error_kind, error_code, error_message, error_stack, fingerprint, batch_id
    )
    select asked.id, detail.type, v_now,
      -- What it waits for, or the last failure.
      coalesce(asked.waiting_for, (
        select history.name || case when history.occurrence > 1 then '#' || history.occurrence else '' end
        from holdfast.process_history as history
        where history.process_id = asked.id and history.generation = process.generation and history.status = 'FAILED'
        order by history.seq desc
        limit 1
      )),
      -- Under the code of what user code threw, so that the same failure has the same code in all models.
      asked.error ->> 'kind', coalesce(asked.error -> 'cause', asked.error) ->> 'code',
      coalesce(asked.error -> 'cause', asked.error) ->> 'message', asked.error ->> 'stack', asked.error ->> 'fingerprint', detail.batch_id
    from jsonb_to_recordset(writes) as asked (id uuid, to_status text, waiting_for text, error jsonb)
    join holdfast.process on process.id = asked.id
    join holdfast.process_detail as detail on detail.id = asked.id
    where asked.to_status = 'WAITING_FOR_TSQ'
    on conflict (id) do update
    set since = excluded.since, step = excluded.step, error_kind = excluded.error_kind, error_code = excluded.error_code,
        error_message = excluded.error_message, error_stack = excluded.error_stack, fingerprint = excluded.fingerprint;
  end if;
  if writes @> '[{"error": {"code": "DEADLINE_EXCEEDED"}}]' then
    -- A deadline that ends the process or needs an operator has no event in the history. One that compensates has.
    insert into holdfast.audit (at, model, event, subject_id, detail)
    select v_now, 'processes', 'DEADLINE_EXCEEDED', asked.id, jsonb_build_object('status', asked.to_status)
    from jsonb_to_recordset(writes) as asked (id uuid, to_status text, error jsonb)
    where asked.error ->> 'code' = 'DEADLINE_EXCEEDED' and asked.to_status in ('WAITING_FOR_TSQ', 'FAILED');
  end if;
  if v_parents or v_batches or v_items then
    v_ended := array(
      select asked.id
      from jsonb_to_recordset(writes) as asked (id uuid, to_status text, ended boolean)
      where asked.to_status is not null and asked.ended
    );
    if v_parents or v_batches then
      perform holdfast.processes_ended(v_ended);
    end if;
    if v_items then
      perform holdfast.end_dispatched_processes(v_ended);
    end if;
  end if;
  if writes @> '[{"ended": true}]' or writes @> '[{"to_status": "WAITING_FOR_TSQ"}]' then
    perform holdfast.wake_results('processes');
  end if;
  if writes @> '[{"limited": true}]' then
    delete from holdfast.process_slot
    using jsonb_to_recordset(writes) as asked (id uuid, epoch int, to_status text, limited boolean)
    where process_slot.process_id = asked.id and asked.limited and asked.to_status is not null;
  end if;
  -- A continued process is due at once, a freed slot is for another process, and a process that its caller suspended is due at a time
  -- that no worker knows of.
  for v_type in
    select distinct process.type
    from jsonb_to_recordset(writes) as asked (id uuid, to_status text, continues boolean, limited boolean, wakes boolean)
    join holdfast.process on process.id = asked.id
    where asked.to_status is not null and (asked.continues or asked.limited or asked.wakes)
  loop
    perform holdfast.wake('processes:' || v_type);
  end loop;
end
$$;

-- Effects of ended processes on other work: their parents get a response, and their batches count them.
-- planner: looped
create or replace function holdfast.processes_ended(ids uuid[])
returns void
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_type text;
begin
  -- Only an inbox row: this transaction must not lock the parent's own row.
  insert into holdfast.process_inbox (id, type, process_ref, name, response_id, data, notes, checked, created_at, due_at)
  select gen_random_uuid(), parent.type, parent.id::text, '@child', detail.id::text,
    jsonb_build_object(
      'call', detail.parent_call, 'id', detail.id, 'status', process.status, 'undone', detail.undone,
      'result', detail.result, 'resultNotes', detail.result_notes,
      'error', case when detail.error_code is not null then
        jsonb_build_object('code', detail.error_code, 'message', detail.error_message) end
    ),
    null, true, v_now, v_now
  from holdfast.process_detail as detail
  join holdfast.process on process.id = detail.id
  join holdfast.process as parent on parent.id = detail.parent_id
  where detail.id = any (ids);
  for v_type in
    select distinct parent.type
    from holdfast.process_detail as detail
    join holdfast.process as parent on parent.id = detail.parent_id
    where detail.id = any (ids)
  loop
    perform holdfast.wake('process-inbox:' || v_type);
  end loop;

  if exists (select from holdfast.process_detail where id = any (ids) and batch_id is not null) then
    with ended as (
      select detail.id, detail.batch_id, process.status, detail.type
      from holdfast.process_detail as detail
      join holdfast.process on process.id = detail.id
      where detail.id = any (ids) and detail.batch_id is not null
    ),
    left_batch as (
      delete from holdfast.batch_open
      using ended
      where batch_open.batch_id = ended.batch_id and batch_open.command_id = ended.id and batch_open.domain = ended.type
    )
    insert into holdfast.batch_tally (batch_id, completed, failed, cancelled, due_at)
    select batch_id, count(*) filter (where status = 'COMPLETED'), count(*) filter (where status in ('FAILED', 'COMPENSATED')),
      count(*) filter (where status = 'CANCELLED'), v_now
    from ended
    group by batch_id;
    perform holdfast.wake('batches');
  end if;
end
$$;

create or replace function holdfast.process_write_answers(writes jsonb, mine uuid[])
returns json
language sql
as $$
  select json_agg(
    case
      when asked.id = any (mine) or process.last_write = asked.token then to_json(0)
      when process.id is null or process.lease_epoch <> asked.epoch then to_json(1)
      when asked.to_status is null
        or process.responses = asked.responses and (process.cancel is null or asked.heard_cancel) then to_json(2)
      else json_build_object('cancel', process.cancel, 'responses', (
        select json_agg(json_build_array(number, name, data, notes) order by number)
        from holdfast.process_response
        where process_id = asked.id and number > asked.responses
      ))
    end
    order by asked.place
  )
  from rows from (
    jsonb_to_recordset(writes) as (id uuid, epoch int, token uuid, to_status text, responses int, heard_cancel boolean)
  ) with ordinality as asked (id, epoch, token, to_status, responses, heard_cancel, place)
  left join holdfast.process on process.id = asked.id
$$;

-- For a transaction of the user: locks the process first, and returns whether it still has this epoch (P-05).
create or replace function holdfast.hold_process(p_id uuid, p_epoch int)
returns boolean
language sql
as $$
  select exists (
    select from holdfast.process where id = p_id and lease_epoch = p_epoch for no key update
  )
$$;

-- Responses and cancellations that have come for running executions and that they have not seen.
create or replace function holdfast.process_news(ids uuid[], heard int[])
returns json
language sql
stable
as $$
  select json_agg(json_build_object('id', process.id, 'cancel', process.cancel, 'responses', (
    select json_agg(json_build_array(number, name, data, notes) order by number)
    from holdfast.process_response
    where process_id = process.id and number > asked.heard
  )))
  from unnest(ids, heard) as asked (id, heard)
  join holdfast.process on process.id = asked.id
  where process.responses > asked.heard or process.cancel is not null
$$;
