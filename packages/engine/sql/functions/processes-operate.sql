-- revision: 12
-- after: processes-standing, processes-write, processes-claim, processes-start, commands-operate
--
-- Operations of operators on processes that continue (P-16, P-23): retry, resolve, resume. `hf.processes`, handles and `hf.trouble` call
-- them; processes-end.sql has those that end a process. What must not break: every change is audited with actor and reason in the same
-- transaction; each change raises the epoch of the process, so that the epoch alone is the fence; several processes are locked in the
-- order of their ids.

-- The process that an id or key of a definition names; null if no process has the key.
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

-- Retries, cancels or resumes processes, each named by its id or key. With `in_trouble` only those that need an operator. Returns for
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
    -- In the order of ids, so that two operators cannot deadlock.
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

-- Whether a process needs an operator. Its row is locked, so that this does not change until the end of the transaction.
create or replace function holdfast.lock_troubled_process(p_id uuid)
returns boolean
language sql
as $$
  select status = 'WAITING_FOR_TSQ' from holdfast.process where id = p_id for no key update
$$;

-- The values of a process before a change, for the audit.
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

-- Clears what the process waited for and its error, because it is about to continue.
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

-- Records an operation in the history too, where a replay finds it. Returns its number.
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

-- Retries a process in troubleshooting (P-16): the failed call begins again. A correction is a response: recorded with its number, and
-- applied to the state from the retry on. With `not_done` an operator says that no call of unknown outcome was done. Returns 'done',
-- 'deadline' (passed, and no new one given), 'unresolved <call>' (an at-most-once call whose outcome only an operator can say, K-20),
-- 'waits for <command>' (a step-based process whose command needs an operator: a retry would do nothing), or the status of the process.
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
  v_awaited text;
begin
  select * into v_row from holdfast.process where id = p_id for no key update;
  if v_row.status <> 'WAITING_FOR_TSQ' then
    return case when v_row.leased_at is null then v_row.status else 'EXECUTING' end;
  end if;
  v_awaited := holdfast.troubled_command(p_id, v_row.generation);
  if v_awaited is not null then
    return 'waits for ' || v_awaited;
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

-- Records in the history what an operator said about a failed call, where a replay finds it. Returns its number.
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

-- Resolves a call of unknown outcome (K-20): it was done, with this result, or it was not and is called again. Or skips the failed step,
-- which counts as done without a result. Of a process that is being compensated it is about the failed compensations. Returns 'done',
-- 'deadline', 'nothing' (no such call is unresolved), 'not skippable', what `complete_compensations` returns, or the status of the process.
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
  v_outcome text;
begin
  select * into v_row from holdfast.process where id = p_id for no key update;
  if v_row.status <> 'WAITING_FOR_TSQ' then
    return case when v_row.leased_at is null then v_row.status else 'EXECUTING' end;
  end if;
  if holdfast.process_is_unwinding(p_id, v_row.generation) then
    if options ->> 'outcome' = 'notDone' then
      return 'nothing';
    end if;
    v_outcome := holdfast.complete_compensations(p_id, options ->> 'step', options, options ->> 'outcome', p_actor, p_reason);
    return case
      when v_outcome <> 'no failed compensation' then v_outcome
      when options ->> 'outcome' = 'skipped' then 'not skippable'
      else 'nothing'
    end;
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
    if v_name is null then
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

-- Resumes a waiting process now (P-16): its conditions, its next attempt or its start. Timeouts and deadline do not change. Returns
-- 'done', or the status of a process that does not wait.
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
  -- A process that was to start later starts now, and its clock with it.
  update holdfast.process_detail set updated_at = v_now, start_at = least(start_at, v_now) where id = p_id;
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, before, detail)
  values (v_now, 'processes', 'OPERATOR_RESUME', p_id, p_actor, p_reason, v_before,
    case when v_seq is not null then jsonb_build_object('generation', v_row.generation, 'seq', v_seq) end);
  perform holdfast.wake('processes:' || v_row.type);
  return 'done';
end
$$;
