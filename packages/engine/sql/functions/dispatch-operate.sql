-- revision: 1
-- after: kernel
--
-- What operators do with the items of dispatch, audited in the same transaction.

-- Schedules dead letters anew, with all their attempts: those named, those that failed alike, or all. Answers for each
-- that was asked for whether it was a dead letter; where a group was asked for, those that were.
create or replace function holdfast.requeue_dead_letters(
  p_type text, ids text[], p_fingerprint text, p_most int, p_exec_time timestamptz, p_actor text, p_reason text
)
returns table (item_id text, outcome text)
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_ids text[];
begin
  v_ids := array(
    select letter.item_id
    from holdfast.dispatch_dead_letter as letter
    where letter.item_type = p_type
      and (ids is null or letter.item_id = any (ids))
      and (p_fingerprint is null or letter.fingerprint = p_fingerprint)
    order by letter.item_id
    limit p_most
    for update
  );
  with requeued as (
    update holdfast.dispatch_item as item
    set status = 'READY',
        retry_count = 0,
        exec_time = coalesce(p_exec_time, item.exec_time),
        due_at = greatest(coalesce(p_exec_time, item.exec_time), v_now),
        updated_at = v_now
    where item.item_type = p_type and item.item_id = any (v_ids) and item.status = 'DEAD_LETTER'
    returning item.item_id, item.last_error
  ),
  gone as (
    delete from holdfast.dispatch_dead_letter as letter
    where letter.item_type = p_type and letter.item_id = any (v_ids)
  )
  insert into holdfast.audit (at, model, event, subject_name, actor, reason, before, after)
  select v_now, 'dispatch', 'REQUEUED', p_type || '/' || requeued.item_id, p_actor, p_reason,
    jsonb_build_object('status', 'DEAD_LETTER', 'error', requeued.last_error), '{"status": "READY"}'
  from requeued;
  perform holdfast.wake('dispatch');
  return query
  select asked.id, case
      when asked.id = any (v_ids) then 'done'
      when item.item_id is null then 'unknown'
      else item.status
    end
  from unnest(coalesce(ids, v_ids)) as asked (id)
  left join holdfast.dispatch_item as item on item.item_type = p_type and item.item_id = asked.id collate "C";
end
$$;
