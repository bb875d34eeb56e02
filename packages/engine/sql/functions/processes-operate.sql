-- revision: 1
-- after: processes-write
--
-- What operators do with processes.

-- Asks a process to end (P-16): a running one hears of it at its next call, one that rests becomes due. Answers 'done',
-- 'unknown', or the status of a process that has ended.
create or replace function holdfast.cancel_process(p_id uuid, p_mode text, p_actor text, p_reason text)
returns text
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_row holdfast.process;
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
      queued_at = null
  where id = p_id;
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, before, detail)
  values (v_now, 'processes', 'TSQ_CANCEL', p_id, p_actor, p_reason, jsonb_build_object('status', v_row.status),
    jsonb_build_object('compensate', p_mode = 'COMPENSATE'));
  perform holdfast.wake('processes:' || v_row.type);
  if v_row.leased_at is not null then
    perform holdfast.wake('processes:live');
  end if;
  return 'done';
end
$$;
