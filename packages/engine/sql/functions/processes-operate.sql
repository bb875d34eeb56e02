-- revision: 8
-- after: processes-write, processes-claim, processes-start, commands-operate
--
-- What operators do with processes (P-16, P-23). Every change is audited in the same transaction with who and why, and
-- raises the epoch of what it changes, so that the epoch alone is the fence.

-- Which process an id or key of a definition is; null where a key is not there.
create or replace function holdfast.process_id_of(p_type text, p_ref text)
returns uuid
language sql
stable
as $$
  select case
    when p_ref ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then p_ref::uuid
    else (select id from holdfast.process_detail where type = p_type and key = p_ref)
  end
$$;

-- Retries, cancels or resumes processes, each named by its id or key. With `in_trouble` only those that need a person. Returns for
-- each: 'done', 'unknown', 'other type', or why not.
-- planner: no jit
create or replace function holdfast.operate_processes(
  p_action text, p_type text, refs text[], p_actor text, p_reason text, options jsonb
)
returns table (ref text, process_id uuid, outcome text, actual text)
language plpgsql
as $$
begin
  for ref, process_id, actual in
    select asked.ref, detail.id, detail.type
    from unnest(refs) as asked (ref)
    left join holdfast.process_detail as detail on detail.id = holdfast.process_id_of(p_type, asked.ref)
    -- In one order, so that two operators never wait for each other in a circle.
    order by detail.id
  loop
    outcome := case
      when process_id is null then 'unknown'
      when actual <> p_type then 'other type'
      when (options -> 'in_trouble')::boolean and not holdfast.lock_troubled_process(process_id) then 'not in trouble'
      when p_action = 'RETRY' then holdfast.retry_process(process_id, p_actor, p_reason, options)
      when p_action = 'CANCEL' then holdfast.cancel_process(process_id, options ->> 'mode', p_actor, p_reason)
      when p_action = 'RESUME' then holdfast.resume_process(process_id, p_actor, p_reason)
      when p_action = 'RESOLVE' then holdfast.resolve_process(process_id, p_actor, p_reason, options)
    end;
    return next;
  end loop;
end
$$;

-- Whether a process needs a person, and its row, locked: it stays so until the end of the transaction.
create or replace function holdfast.lock_troubled_process(p_id uuid)
returns boolean
language sql
as $$
  select status = 'WAITING_FOR_TSQ' from holdfast.process where id = p_id for no key update
$$;

-- What the audit says of a process before somebody changes it.
create or replace function holdfast.process_before(p_id uuid)
returns jsonb
language sql
stable
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'status', process.status, 'waitingFor', detail.waiting_for, 'errorCode', detail.error_code,
    'errorMessage', detail.error_message
  ))
  from holdfast.process
  join holdfast.process_detail as detail on detail.id = process.id
  where process.id = p_id
$$;

-- It waits for nothing and has no error any more: it is about to go on.
create or replace function holdfast.process_goes_on(p_id uuid, p_now timestamptz)
returns void
language plpgsql
as $$
begin
  delete from holdfast.process_trouble where id = p_id;
  update holdfast.process_detail
  set updated_at = p_now, waiting_for = null, wait_timeout_at = null, next_retry_at = null,
      error_kind = null, error_code = null, error_message = null
  where id = p_id;
end
$$;

create or replace function holdfast.process_is_unwinding(p_id uuid, p_generation int)
returns boolean
language sql
stable
as $$
  select exists (
    select from holdfast.process_history
    where process_id = p_id and generation = p_generation and kind = 'UNWIND'
  )
$$;

-- What an operator did goes into the history too, where a replay meets it. Answers its place.
create or replace function holdfast.record_operation(
  p_id uuid, p_generation int, p_epoch int, p_kind text, p_seen int, p_now timestamptz
)
returns int
language sql
as $$
  insert into holdfast.process_history (process_id, generation, seq, epoch, at, kind, name, occurrence, status, seen)
  select p_id, p_generation, coalesce(max(seq), 0) + 1, p_epoch, date_trunc('milliseconds', p_now), p_kind, p_kind, 1,
    'COMPLETED', p_seen
  from holdfast.process_history
  where process_id = p_id and generation = p_generation
  returning seq
$$;

-- The calls of a process that have failed without anybody knowing whether they have had their effect (K-20): the last record of
-- each says so. In troubleshooting only; a retry has let all others begin again.
create or replace function holdfast.unresolved_calls(p_id uuid, p_generation int)
returns table (name text, occurrence int, no_inquire boolean)
language sql
stable
as $$
  select last.name, last.occurrence, coalesce((last.detail ->> 'noInquire')::boolean, false)
  from (
    select distinct on (history.name, history.occurrence) history.name, history.occurrence, history.kind, status, detail
    from holdfast.process_history as history
    where process_id = p_id
      and generation = p_generation
      and kind in ('STEP', 'SIDE_EFFECT', 'RESOLVE')
    order by history.name, history.occurrence, seq desc
  ) as last
  where last.status = 'FAILED'
    and last.detail ->> 'outcome' = 'unknown'
    and not coalesce((last.detail ->> 'thrown')::boolean, false)
    and not coalesce((last.detail ->> 'afterEnd')::boolean, false)
$$;

-- Lets a process in troubleshooting go on (P-16): what failed begins anew. A correction is a response: recorded with its
-- number, and in the state from the retry on. With `not_done` a person says that no call of unknown outcome was done. Returns 'done',
-- 'deadline' (passed, and no new one given), 'unresolved <call>' (an at-most-once call that only a person can say the outcome of,
-- K-20), or its status.
create or replace function holdfast.retry_process(p_id uuid, p_actor text, p_reason text, options jsonb)
returns text
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_row holdfast.process;
  v_before jsonb := holdfast.process_before(p_id);
  v_unwinding boolean;
  v_deadline timestamptz;
  v_response jsonb := options -> 'response';
  v_number int;
  v_seq int;
  v_status text;
  v_unresolved text;
begin
  select * into v_row from holdfast.process where id = p_id for no key update;
  if v_row.status <> 'WAITING_FOR_TSQ' then
    return case when v_row.leased_at is null then v_row.status else 'EXECUTING' end;
  end if;
  v_unwinding := holdfast.process_is_unwinding(p_id, v_row.generation);
  if not v_unwinding and not coalesce((options -> 'not_done')::boolean, false) then
    select holdfast.call_id(name, occurrence) into v_unresolved
    from holdfast.unresolved_calls(p_id, v_row.generation)
    where no_inquire
    order by 1
    limit 1;
    if v_unresolved is not null then
      return 'unresolved ' || v_unresolved;
    end if;
  end if;
  v_status := case when v_unwinding then 'COMPENSATING' else 'PENDING' end;
  v_deadline := coalesce(
    to_timestamp((options ->> 'deadline_ms')::float8 / 1000),
    v_now + (options ->> 'deadline_in_ms')::float8 * interval '1 ms',
    v_row.deadline_at
  );
  if v_deadline <= v_now and not v_unwinding then
    return 'deadline';
  end if;
  if v_response is not null then
    v_number := v_row.responses + 1;
    insert into holdfast.process_response (process_id, number, name, response_id, at, data, notes)
    values (p_id, v_number, v_response ->> 'name', gen_random_uuid()::text, v_now, v_response -> 'data',
      nullif(v_response -> 'notes', 'null'));
  end if;
  if not v_unwinding and (options -> 'not_done')::boolean then
    perform holdfast.record_resolved(p_id, v_row.generation, v_row.lease_epoch + 1, name, occurrence, '{"outcome": "notDone"}', v_now)
    from (select name, occurrence from holdfast.unresolved_calls(p_id, v_row.generation) order by name, occurrence) as unresolved;
  end if;
  v_seq := holdfast.record_operation(p_id, v_row.generation, v_row.lease_epoch + 1, 'RETRY', v_number, v_now);
  update holdfast.process
  set status = v_status,
      due_at = v_now,
      lease_epoch = lease_epoch + 1,
      rested_epoch = rested_epoch + 1,
      responses = coalesce(v_number, responses),
      deadline_at = v_deadline,
      mismatch_since = null
  where id = p_id;
  perform holdfast.process_goes_on(p_id, v_now);
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, before, after, detail)
  values (v_now, 'processes', 'TSQ_RETRY', p_id, p_actor, p_reason, v_before,
    jsonb_strip_nulls(jsonb_build_object(
      'status', v_status, 'response', v_response ->> 'name', 'notDone', options -> 'not_done',
      'deadline', case when v_deadline is distinct from v_row.deadline_at then v_deadline end
    )),
    jsonb_build_object('generation', v_row.generation, 'seq', v_seq));
  perform holdfast.wake('processes:' || v_row.type);
  return 'done';
end
$$;

-- `pay`, and `pay#2` where the name is used again: as everything that shows a call names it.
create or replace function holdfast.call_id(p_name text, p_occurrence int)
returns text
language sql
immutable
as $$
  select p_name || case when p_occurrence > 1 then '#' || p_occurrence else '' end
$$;

-- A person said what became of a failed call. Goes into the history, where a replay finds it. Returns its place.
create or replace function holdfast.record_resolved(
  p_id uuid, p_generation int, p_epoch int, p_name text, p_occurrence int, options jsonb, p_now timestamptz
)
returns int
language sql
as $$
  insert into holdfast.process_history (
    process_id, generation, seq, epoch, at, kind, name, occurrence, status, result, notes, detail
  )
  select p_id, p_generation, max(seq) + 1, p_epoch, date_trunc('milliseconds', p_now), 'RESOLVE', p_name, p_occurrence,
    'COMPLETED', options -> 'result', nullif(options -> 'notes', 'null'),
    jsonb_strip_nulls(jsonb_build_object('resolved', options ->> 'outcome', 'nothing', options -> 'nothing'))
  from holdfast.process_history
  where process_id = p_id and generation = p_generation
  returning seq
$$;

-- The step that a process in troubleshooting failed at and that can be skipped: nothing has happened to it since, and nothing is being
-- undone. No row: it waits for something else. Reads only the end of the history.
create or replace function holdfast.failed_step(p_id uuid, p_generation int)
returns table (name text, occurrence int)
language sql
stable
as $$
  select last.name, last.occurrence
  from (
    select history.seq, history.kind, history.name, history.occurrence
    from holdfast.process_history as history
    where process_id = p_id
      and generation = p_generation
      and status = 'FAILED'
      and not coalesce((detail ->> 'thrown')::boolean, false)
      and not coalesce((detail ->> 'afterEnd')::boolean, false)
    order by seq desc
    limit 1
  ) as last
  where last.kind in ('STEP', 'SIDE_EFFECT', 'TRANSACTION')
    and not exists (
      select from holdfast.process_history as later
      where later.process_id = p_id
        and later.generation = p_generation
        and later.seq > last.seq
        and (later.kind in ('UNWIND', 'RETRY') or later.name = last.name and later.occurrence = last.occurrence)
    )
$$;

-- A person says what became of a call of unknown outcome (K-20): it was done, with this result, or it was not, and is called
-- again. Or the failed step is skipped: it counts as done without a result. Returns 'done', 'deadline', 'nothing' (no such call waits
-- for an answer), 'not skippable', or the status of the process.
create or replace function holdfast.resolve_process(p_id uuid, p_actor text, p_reason text, options jsonb)
returns text
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_row holdfast.process;
  v_before jsonb := holdfast.process_before(p_id);
  v_deadline timestamptz;
  v_name text;
  v_occurrence int;
  v_seq int;
begin
  select * into v_row from holdfast.process where id = p_id for no key update;
  if v_row.status <> 'WAITING_FOR_TSQ' then
    return case when v_row.leased_at is null then v_row.status else 'EXECUTING' end;
  end if;
  if options ->> 'outcome' = 'skipped' then
    select name, occurrence into v_name, v_occurrence from holdfast.failed_step(p_id, v_row.generation);
    if v_name is null then
      return 'not skippable';
    end if;
  else
    select name, occurrence into v_name, v_occurrence
    from holdfast.unresolved_calls(p_id, v_row.generation)
    where holdfast.call_id(name, occurrence) = options ->> 'step';
    if v_name is null or holdfast.process_is_unwinding(p_id, v_row.generation) then
      return 'nothing';
    end if;
  end if;
  v_deadline := coalesce(
    to_timestamp((options ->> 'deadline_ms')::float8 / 1000),
    v_now + (options ->> 'deadline_in_ms')::float8 * interval '1 ms',
    v_row.deadline_at
  );
  if v_deadline <= v_now then
    return 'deadline';
  end if;
  v_seq := holdfast.record_resolved(p_id, v_row.generation, v_row.lease_epoch + 1, v_name, v_occurrence, options, v_now);
  update holdfast.process
  set status = 'PENDING',
      due_at = v_now,
      lease_epoch = lease_epoch + 1,
      rested_epoch = rested_epoch + 1,
      deadline_at = v_deadline,
      mismatch_since = null
  where id = p_id;
  perform holdfast.process_goes_on(p_id, v_now);
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, before, after, detail)
  values (v_now, 'processes', 'TSQ_RESOLVE', p_id, p_actor, p_reason, v_before,
    jsonb_strip_nulls(jsonb_build_object(
      'status', 'PENDING', 'step', options ->> 'step', 'outcome', options ->> 'outcome', 'result', options -> 'result'
    )),
    jsonb_build_object('generation', v_row.generation, 'seq', v_seq));
  perform holdfast.wake('processes:' || v_row.type);
  return 'done';
end
$$;

-- Ends a command of a process that is being undone or has ended, if it has had no effect (K-19): one that no worker has received
-- yet, and one that waits for an operator because it could not be called or was refused. Answers as `cancel_command` does.
create or replace function holdfast.call_off_command(p_domain text, p_command_id uuid, p_actor text, p_reason text)
returns text
language plpgsql
as $$
declare
  v_answer text := holdfast.cancel_command(p_domain, p_command_id, p_actor, p_reason);
begin
  if v_answer = 'ended' and exists (
    select from holdfast.command_trouble as trouble
    join holdfast.command using (domain, command_id)
    where trouble.domain = p_domain
      and trouble.command_id = p_command_id
      and command.effect is null
  ) then
    perform holdfast.operate_commands('CANCEL', p_domain, array[p_command_id], p_actor, p_reason, null, null, null);
    return 'done';
  end if;
  return v_answer;
end
$$;

-- Ends the command that a step-based process waits for, if it has had no effect; its reply tells the process. One that has begun
-- goes on, and so does a compensation. Other processes call off what they have sent themselves.
create or replace function holdfast.call_off_managed(p_id uuid, p_generation int, p_actor text)
returns void
language plpgsql
as $$
declare
  v_domain text;
  v_command_id uuid;
begin
  select command.domain, command.command_id
  into v_domain, v_command_id
  from (
    select history.kind, history.detail ->> 'startedId' as started_id
    from holdfast.process_history as history
    where history.process_id = p_id
      and history.generation = p_generation
      and history.kind not in ('RETRY', 'RESUME', 'UNWIND')
    order by history.seq desc
    limit 1
  ) as last
  join holdfast.command on command.command_id = last.started_id::uuid and command.correlation_id = p_id
  where last.kind = 'COMMAND'
    and exists (select from holdfast.process_detail where id = p_id and model = 'STEP_BASED');
  if found then
    perform holdfast.call_off_command(v_domain, v_command_id, p_actor, 'its process was cancelled');
  end if;
end
$$;

-- Asks a process to end (P-16): a running one hears of it at its next call, one that rests becomes due. Answers 'done',
-- 'unknown', or the status of a process that has ended.
create or replace function holdfast.cancel_process(p_id uuid, p_mode text, p_actor text, p_reason text)
returns text
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_row holdfast.process;
  v_before jsonb := holdfast.process_before(p_id);
begin
  select * into v_row from holdfast.process where id = p_id for no key update;
  if v_row.id is null then
    return 'unknown';
  end if;
  if v_row.status in ('COMPENSATED', 'COMPLETED', 'CANCELLED', 'FAILED') then
    return v_row.status;
  end if;
  update holdfast.process
  set cancel = p_mode,
      due_at = case when leased_at is null then v_now else due_at end,
      queued_at = null,
      -- It no longer waits for a person: nobody is to retry it while it is being cancelled.
      status = case
        when status <> 'WAITING_FOR_TSQ' then status
        when holdfast.process_is_unwinding(p_id, generation) then 'COMPENSATING'
        else 'PENDING'
      end
  where id = p_id;
  if v_row.status = 'WAITING_FOR_TSQ' then
    perform holdfast.process_goes_on(p_id, v_now);
  end if;
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, before, detail)
  values (v_now, 'processes', case when v_row.status = 'WAITING_FOR_TSQ' then 'TSQ_CANCEL' else 'CANCEL_REQUESTED' end,
    p_id, p_actor, p_reason, v_before, jsonb_build_object('compensate', p_mode = 'COMPENSATE'));
  perform holdfast.call_off_managed(p_id, v_row.generation, p_actor);
  perform holdfast.wake('processes:' || v_row.type);
  if v_row.leased_at is not null then
    perform holdfast.wake('processes:live');
  end if;
  return 'done';
end
$$;

-- Makes a process that waits look again now (P-16): its conditions, its next attempt, its start. Timeouts and deadline
-- stay as they are. Answers 'done', or its status where there is nothing to wait for.
create or replace function holdfast.resume_process(p_id uuid, p_actor text, p_reason text)
returns text
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_row holdfast.process;
  v_before jsonb := holdfast.process_before(p_id);
  v_seq int;
begin
  select * into v_row from holdfast.process where id = p_id for no key update;
  if v_row.leased_at is not null then
    return 'EXECUTING';
  end if;
  if v_row.status not in ('PENDING', 'WAITING_FOR_ASYNC', 'WAITING_FOR_RETRY', 'COMPENSATING') then
    return v_row.status;
  end if;
  if v_row.status in ('WAITING_FOR_RETRY', 'COMPENSATING') then
    v_seq := holdfast.record_operation(p_id, v_row.generation, v_row.lease_epoch + 1, 'RESUME', null, v_now);
  end if;
  update holdfast.process
  set due_at = case when queued_at is null then v_now end,
      lease_epoch = lease_epoch + 1,
      rested_epoch = rested_epoch + 1
  where id = p_id;
  -- One that was to start later starts now, and its own clock with it.
  update holdfast.process_detail set updated_at = v_now, start_at = least(start_at, v_now) where id = p_id;
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, before, detail)
  values (v_now, 'processes', 'OPERATOR_RESUME', p_id, p_actor, p_reason, v_before,
    case when v_seq is not null then jsonb_build_object('generation', v_row.generation, 'seq', v_seq) end);
  perform holdfast.wake('processes:' || v_row.type);
  return 'done';
end
$$;

-- Ends a process as completed, whatever it waits for (P-16). The projection was made from what the process was at this
-- epoch and number of responses: 'changed' where it is something else by now. A dead worker's lease does not protect it.
create or replace function holdfast.complete_process(
  p_id uuid, p_epoch int, p_responses int, projection jsonb, p_actor text, p_reason text, p_overrides jsonb
)
returns text
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_row holdfast.process;
  v_before jsonb := holdfast.process_before(p_id);
begin
  select * into v_row from holdfast.process where id = p_id for no key update;
  if v_row.status in ('COMPENSATED', 'COMPLETED', 'CANCELLED', 'FAILED') then
    return v_row.status;
  end if;
  if v_row.leased_at is not null and v_row.due_at > v_now then
    return 'EXECUTING';
  end if;
  if v_row.lease_epoch <> p_epoch or v_row.responses <> p_responses then
    return 'changed';
  end if;
  update holdfast.process
  set status = 'COMPLETED', due_at = null, queued_at = null, leased_by = null, leased_at = null, cancel = null,
      lease_epoch = lease_epoch + 1, rested_epoch = lease_epoch + 1, last_write = null, mismatch_since = null
  where id = p_id;
  perform holdfast.process_goes_on(p_id, v_now);
  update holdfast.process_detail as detail
  set ended_at = v_now,
      projection = case when complete_process.projection ? 'state' then complete_process.projection -> 'state' else detail.projection end,
      projection_notes = case
        when complete_process.projection ? 'state' then nullif(complete_process.projection -> 'notes', 'null')
        else detail.projection_notes
      end,
      projection_responses = case when complete_process.projection ? 'state' then p_responses else detail.projection_responses end,
      result = nullif(complete_process.projection -> 'result', 'null'),
      result_notes = nullif(complete_process.projection -> 'resultNotes', 'null')
  where id = p_id;
  delete from holdfast.process_slot where process_id = p_id;
  perform holdfast.processes_ended(array[p_id]);
  perform holdfast.end_dispatched_processes(array[p_id]);
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, before, after)
  values (v_now, 'processes', 'TSQ_COMPLETE_OVERRIDE', p_id, p_actor, p_reason, v_before,
    jsonb_build_object('status', 'COMPLETED') || p_overrides);
  perform holdfast.wake('processes:' || v_row.type);
  return 'done';
end
$$;

-- Sets what a definition's own code leaves to operators (P-23); null: as the code says; what is not named stays.
create or replace function holdfast.configure_process(p_type text, changes jsonb, p_actor text, p_reason text)
returns void
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_before holdfast.process_setting;
  v_after holdfast.process_setting;
begin
  -- Claims of a limited definition hold it: none is under way that knows another limit.
  perform pg_advisory_xact_lock(holdfast.slots_lock(p_type));
  insert into holdfast.process_setting (type, updated_at) values (p_type, v_now) on conflict (type) do nothing;
  select * into v_before from holdfast.process_setting where type = p_type for update;
  v_after := jsonb_populate_record(v_before, changes || jsonb_build_object('updated_at', v_now));
  update holdfast.process_setting
  set wait_timeout_ms = v_after.wait_timeout_ms, deadline_action = v_after.deadline_action,
      concurrency = v_after.concurrency, lease_ms = v_after.lease_ms, poll_ms = v_after.poll_ms, updated_at = v_now
  where type = p_type;
  insert into holdfast.audit (at, model, event, subject_name, actor, reason, before, after)
  values (v_now, 'processes', 'CONFIGURED', p_type, p_actor, p_reason,
    jsonb_strip_nulls(to_jsonb(v_before) - 'type' - 'updated_at'), jsonb_strip_nulls(to_jsonb(v_after) - 'type' - 'updated_at'));
  if v_before.concurrency is null and v_after.concurrency is not null then
    -- What executes already counts.
    insert into holdfast.process_slot (process_id, type)
    select id, p_type from holdfast.process
    where type = p_type and due_at is not null and leased_at is not null
    on conflict do nothing;
  elsif v_after.concurrency is null and v_before.concurrency is not null then
    perform holdfast.free_queued_processes(p_type, v_now);
  end if;
  perform holdfast.wake('processes:' || p_type);
end
$$;
