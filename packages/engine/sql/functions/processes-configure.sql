-- revision: 2
-- after: processes-slots, processes-start
--
-- Settings of process definitions that operators change at run time (`hf.processes.configure`). A row of `process_setting` takes
-- precedence over the definition. What must not break: a limit is changed under the same advisory lock under which slots are taken
-- (processes-slots.sql), and processes that queued for a removed limit become due.

-- Sets the settings that are named in `changes` (P-23); null restores the value of the definition; others stay.
create or replace function holdfast.configure_process(p_type text, changes jsonb, p_actor text, p_reason text)
returns void
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_before holdfast.process_setting;
  v_after holdfast.process_setting;
begin
  -- Claims of a limited definition take this lock, so none is in flight with another limit.
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
    -- Processes that execute already count.
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
