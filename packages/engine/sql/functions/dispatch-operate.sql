-- revision: 7
-- after: kernel
--
-- Operations on dispatch items by operators. Handles of items and `hf.trouble` call it. What must not break: every change is audited
-- with actor and reason in the same transaction, and an operation that the status of an item does not allow is refused.

-- Operations on items (D-15): RESCHEDULE and EXPEDITE of READY items, RETRY, DISCARD and COMPLETE of dead letters, CANCEL of both.
-- COMPLETE, and RETRY with `notDone`, also resolve a CLAIMED item whose start has an unknown outcome (K-20): the next start has the same
-- id. With `inTrouble` only dead letters are changed. `change`: { execTime (ms), notDone, inTrouble, context, notes, version, checked,
-- details }. Returns for each requested item: 'done', 'unknown', or the status that does not allow the operation, with its execution.
-- planner: no seqscan
create or replace function holdfast.operate_dispatch_items(
  p_operation text, p_type text, ids text[], change jsonb, p_actor text, p_reason text
)
returns table ("itemId" text, outcome text, "executionId" text)
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_from text[] := case
    when p_operation = 'CANCEL' then array['READY', 'DEAD_LETTER']
    when p_operation in ('RETRY', 'DISCARD', 'COMPLETE') then array['DEAD_LETTER']
    else array['READY']
  end;
  v_exec_time timestamptz := to_timestamp((change -> 'execTime')::float8 / 1000);
  v_first timestamptz;
  v_ids text[];
begin
  v_ids := array(
    select item.item_id
    from holdfast.dispatch_item as item
    where item.item_type = p_type
      and item.item_id = any (ids)
      and (
        item.status = any (v_from)
        or item.status = 'CLAIMED'
          and item.last_error is not null
          and (change -> 'inTrouble') is null
          and (p_operation = 'COMPLETE' or p_operation = 'RETRY' and (change -> 'notDone')::boolean)
      )
    order by item.item_id
    for no key update
  );
  if p_operation = 'EXPEDITE' then
    -- Before all other waiting items.
    select least(v_now, due_at - interval '1 ms') into v_first
    from holdfast.dispatch_item
    where item_type = p_type and due_at is not null
    order by due_at, seq
    limit 1;
  end if;
  with before as materialized (
    select item.item_id, item.status, item.exec_time, item.last_error
    from holdfast.dispatch_item as item
    where item.item_type = p_type and item.item_id = any (v_ids)
  ),
  changed as (
    update holdfast.dispatch_item as item
    set status = case p_operation when 'CANCEL' then 'FAILED' when 'DISCARD' then 'FAILED' when 'COMPLETE' then 'COMPLETED' else 'READY' end,
        retry_count = case when p_operation = 'RETRY' then 0 else item.retry_count end,
        exec_time = case
          when p_operation in ('RESCHEDULE', 'RETRY') then coalesce(v_exec_time, item.exec_time)
          when p_operation = 'EXPEDITE' then least(item.exec_time, v_now)
          else item.exec_time
        end,
        due_at = case p_operation
          when 'RESCHEDULE' then coalesce(v_exec_time, item.due_at)
          when 'RETRY' then greatest(coalesce(v_exec_time, item.exec_time), v_now)
          when 'EXPEDITE' then v_first
        end,
        check_at = null,
        completed_at = case when p_operation in ('CANCEL', 'DISCARD', 'COMPLETE') then v_now end,
        context_hash = case
          when p_operation = 'RESCHEDULE' and change ? 'context'
            then holdfast.context_hash(change -> 'context', nullif(change -> 'notes', 'null'))
          else item.context_hash
        end,
        last_error = case
          when p_operation = 'CANCEL' and before.status = 'READY' then 'CANCELLED: cancelled by ' || p_actor || ': ' || p_reason
          else item.last_error
        end,
        updated_at = v_now
    from before
    where item.item_type = p_type and item.item_id = before.item_id
    returning item.item_id, item.status, item.exec_time, before.status as status_before, before.exec_time as exec_time_before,
      before.last_error as error_before
  )
  insert into holdfast.audit (at, model, event, subject_name, actor, reason, before, after)
  select v_now, 'dispatch',
    case p_operation when 'RESCHEDULE' then 'RESCHEDULED' when 'EXPEDITE' then 'EXPEDITED' when 'RETRY' then 'REQUEUED'
      when 'COMPLETE' then 'COMPLETED_BY_HAND' else 'CANCELLED' end,
    p_type || '/' || changed.item_id, p_actor, p_reason,
    jsonb_strip_nulls(jsonb_build_object('status', status_before, 'execTime', exec_time_before, 'error', error_before)),
    jsonb_strip_nulls(jsonb_build_object('status', status, 'execTime', exec_time,
      'contextChanged', case when p_operation = 'RESCHEDULE' and change ? 'context' then true end))
  from changed;
  if p_operation = 'RESCHEDULE' and change ? 'context' then
    insert into holdfast.dispatch_context (
      item_type, item_id, context, notes, context_version, checked, details, created_at, updated_at
    )
    select p_type, id, change -> 'context', nullif(change -> 'notes', 'null'), (change ->> 'version')::int,
      (change ->> 'checked')::boolean, nullif(change -> 'details', 'null'), v_now, v_now
    from unnest(v_ids) as id
    on conflict (item_type, item_id) do update
    set context = excluded.context, notes = excluded.notes, context_version = excluded.context_version,
        checked = excluded.checked, details = excluded.details, updated_at = excluded.updated_at;
  elsif p_operation in ('CANCEL', 'DISCARD', 'COMPLETE') then
    delete from holdfast.dispatch_context as context where context.item_type = p_type and context.item_id = any (v_ids);
    delete from holdfast.dispatch_dead_letter as letter where letter.item_type = p_type and letter.item_id = any (v_ids);
    perform holdfast.wake_results('dispatch');
  else
    delete from holdfast.dispatch_dead_letter as letter where letter.item_type = p_type and letter.item_id = any (v_ids);
    perform holdfast.wake('dispatch');
  end if;
  return query
  select asked.id, case
      when asked.id = any (v_ids) then 'done'
      when item.item_id is null then 'unknown'
      else item.status
    end, case when asked.id <> all (v_ids) then item.execution_id end
  from unnest(ids) with ordinality as asked (id, place)
  left join holdfast.dispatch_item as item on item.item_type = p_type and item.item_id = asked.id collate "C"
  order by asked.place;
end
$$;
