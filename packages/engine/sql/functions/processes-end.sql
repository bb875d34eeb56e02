-- revision: 3
-- after: processes-operate
--
-- Ends of processes by operators: cancelling with or without compensation, and completing with a result. `operate_processes` and the
-- library call these functions. What must not break: commands that a process has sent and that have not begun are cancelled with it; an
-- operator's end is recorded once, whatever the execution does at the same moment, because it raises the epoch.

-- Cancels a command of a process that is compensating or has ended, if the command has had no effect (K-19): one that no worker has
-- received yet, or one that waits for an operator because it could not be called or was refused. Returns what `cancel_command` returns.
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

-- Cancels the command that a step-based process waits for, if it has had no effect; its reply informs the process. A command that has
-- begun continues, and so does a compensation. Other processes cancel their commands themselves.
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

-- Cancels a process (P-16): a running one notices it at its next call, a suspended one becomes due. Returns 'done', 'unknown', 'being
-- cancelled' (with compensation, which has not begun and is not taken back), or the status of a process that has ended.
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
  -- Another operator was told that it will be compensated.
  if p_mode = 'PLAIN'
    and v_row.cancel = 'COMPENSATE'
    and v_row.status <> 'WAITING_FOR_TSQ'
    and not holdfast.process_is_unwinding(p_id, v_row.generation)
  then
    return 'being cancelled';
  end if;
  update holdfast.process
  set cancel = p_mode,
      due_at = case when leased_at is null then v_now else due_at end,
      queued_at = null,
      -- It no longer waits for an operator, so that it cannot be retried while it is being cancelled.
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

-- Withdraws what a process has sent and started, because an operator says that its work is done (P-16, K-19): a command that no worker has
-- received, or that needs an operator whatever its outcome, is cancelled, and so are the children. Commands are found by the process and its
-- reply queue, so that one is found too whose sender died before it was on record. Raises HF002 with the name of a command that is under
-- way: what was withdrawn until then is rolled back.
create or replace function holdfast.withdraw_remotes(p_id uuid, p_type text, p_actor text, p_reason text)
returns void
language plpgsql
as $$
declare
  v_replies text := split_part(p_type, '/', 1) || '__process_replies';
  v_sent record;
begin
  for v_sent in
    select command.domain, command.type, command.command_id
    from holdfast.command
    where command.correlation_id = p_id
      -- In another schema its name is in front.
      and right(command.reply_to, length(v_replies)) = v_replies
      and command.status in ('PENDING', 'IN_TROUBLESHOOTING_QUEUE')
    order by command.command_id
  loop
    if holdfast.cancel_command(v_sent.domain, v_sent.command_id, p_actor, p_reason) = 'ended' then
      perform holdfast.operate_commands('CANCEL', v_sent.domain, array[v_sent.command_id], p_actor, p_reason, null, null, null);
    end if;
    if exists (
      select from holdfast.command
      where command.command_id = v_sent.command_id
        and command.domain = v_sent.domain
        and command.status in ('PENDING', 'IN_TROUBLESHOOTING_QUEUE')
    ) then
      raise exception '%/% %', v_sent.domain, v_sent.type, v_sent.command_id using errcode = 'HF002';
    end if;
  end loop;
  perform holdfast.cancel_process(child.id, 'PLAIN', p_actor, p_reason)
  from (
    select detail.id
    from holdfast.process_detail as detail
    join holdfast.process on process.id = detail.id
    where detail.parent_id = p_id and detail.ended_at is null and process.cancel is null
    order by detail.id
  ) as child;
end
$$;

-- Says of the failed compensations of a process in troubleshooting, or of the one of a step, that they were done by hand, or are left out.
-- The process goes on with the next compensation and ends as it would have ended (P-14). A step-based process gets this as the reply of the
-- compensating command, which is withdrawn. Returns 'undone', 'no failed compensation', 'compensation has no result' (one was given), or
-- 'under way <command>'.
create or replace function holdfast.complete_compensations(
  p_id uuid, p_step text, p_given jsonb, p_how text, p_actor text, p_reason text
)
returns text
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_row holdfast.process;
  v_before jsonb := holdfast.process_before(p_id);
  v_steps text[];
  v_seq int;
begin
  select * into v_row from holdfast.process where id = p_id;
  select array_agg(holdfast.call_id(name, occurrence) order by seq)
  into v_steps
  from holdfast.failed_compensations(p_id, v_row.generation)
  where p_step is null or holdfast.call_id(name, occurrence) = p_step;
  if v_steps is null then
    return 'no failed compensation';
  end if;
  if p_given ?| array['result', 'state'] then
    return 'compensation has no result';
  end if;
  -- Only a step-based process compensates with commands.
  if exists (select from holdfast.process_detail where id = p_id and model = 'STEP_BASED') then
    begin
      perform holdfast.withdraw_remotes(p_id, v_row.type, 'process ' || p_id, 'its compensation was completed by hand');
    exception when sqlstate 'HF002' then
      return 'under way ' || sqlerrm;
    end;
  end if;
  v_seq := (select max(seq) from holdfast.process_history where process_id = p_id and generation = v_row.generation);
  insert into holdfast.process_history (
    process_id, generation, seq, epoch, at, kind, name, occurrence, status, attempt, detail
  )
  select p_id, v_row.generation, v_seq + row_number() over (order by seq), v_row.lease_epoch + 1, date_trunc('milliseconds', v_now),
    'COMPENSATION', name, occurrence,
    case when managed then 'WAITING_RETRY' else 'COMPLETED' end,
    attempt,
    detail - 'error' || jsonb_build_object('resolved', p_how)
      || case when managed then jsonb_build_object(
        'reply', jsonb_build_object('commandId', detail -> 'startedId', 'outcome', 'SUCCESS', 'result', null)
      ) else '{}' end
  from holdfast.failed_compensations(p_id, v_row.generation)
  where holdfast.call_id(name, occurrence) = any (v_steps);
  update holdfast.process
  set status = 'COMPENSATING', due_at = v_now, lease_epoch = lease_epoch + 1, rested_epoch = rested_epoch + 1, mismatch_since = null
  where id = p_id;
  perform holdfast.process_goes_on(p_id, v_now);
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, before, after, detail)
  values (v_now, 'processes', 'TSQ_RESOLVE', p_id, p_actor, p_reason, v_before,
    jsonb_build_object('status', 'COMPENSATING', 'compensations', v_steps, 'outcome', p_how), null);
  perform holdfast.wake('processes:' || v_row.type);
  return 'undone';
end
$$;

-- Ends a process as completed, whatever it waits for (P-16). The caller made the projection from this epoch and number of responses;
-- returns 'changed' if they differ by now. The lease of a dead worker does not prevent it. What the process has sent and started is
-- withdrawn; 'under way <command>' if a worker has one of its commands, 'being cancelled' if an operator was told that it is cancelled. A process that is being compensated never ends as completed: see
-- `complete_compensations`.
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
  if holdfast.process_is_unwinding(p_id, v_row.generation) then
    if v_row.status <> 'WAITING_FOR_TSQ' then
      return 'COMPENSATING';
    end if;
    return holdfast.complete_compensations(p_id, null, p_overrides, 'done', p_actor, p_reason);
  end if;
  if v_row.cancel is not null and v_row.status <> 'WAITING_FOR_TSQ' then
    return 'being cancelled';
  end if;
  if v_row.lease_epoch <> p_epoch or v_row.responses <> p_responses then
    return 'changed';
  end if;
  begin
    perform holdfast.withdraw_remotes(p_id, v_row.type, 'process ' || p_id, 'its process was completed by hand');
  exception when sqlstate 'HF002' then
    return 'under way ' || sqlerrm;
  end;
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
