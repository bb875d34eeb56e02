-- revision: 2
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

-- Cancels a process (P-16): a running one notices it at its next call, a suspended one becomes due. Returns 'done', 'unknown', or the
-- status of a process that has ended.
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

-- Ends a process as completed, whatever it waits for (P-16). The caller made the projection from this epoch and number of responses;
-- returns 'changed' if they differ by now. The lease of a dead worker does not prevent it.
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
