-- revision: 5
-- after: kernel
--
-- Ends and failures of dispatch items (D-06). Each of our engines ends its items through `end_dispatched`, in the transaction that ends
-- the execution. What must not break: only `fail_dispatch_items` decides whether a failed item is retried or becomes a dead letter.

-- Ends the items of executions that have ended. Outcomes: 'COMPLETED', 'FAILED' (for good), 'RETRY' (a technical failure). An item
-- changes only if it is DISPATCHED with that execution. Returns how many became dead letters.
-- planner: indexed
create or replace function holdfast.end_dispatched(
  item_types text[], item_ids text[], execution_ids text[], outcomes text[], codes text[], messages text[]
)
returns int
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
begin
  with ended as (
    update holdfast.dispatch_item as item
    set status = asked.outcome,
        completed_at = v_now,
        check_at = null,
        updated_at = v_now,
        last_error = case when asked.outcome = 'FAILED' then asked.code || ': ' || asked.message end
    from unnest(item_types, item_ids, execution_ids, outcomes, codes, messages)
      as asked (item_type, item_id, execution_id, outcome, code, message)
    where item.item_type = asked.item_type
      and item.item_id = asked.item_id
      and item.status = 'DISPATCHED'
      and item.execution_id = asked.execution_id
      and asked.outcome in ('COMPLETED', 'FAILED')
      -- Always true, and estimated as one row: the plan begins with the requested items, not with the table.
      and asked.item_id = asked.item_id || ''
    returning item.item_type, item.item_id, item.status, item.batch_id, item.last_error
  ),
  told as (
    -- Only failures are audited. Completions are numerous, and each is on record as an execution.
    insert into holdfast.audit (at, model, event, subject_name, before, after, detail)
    select v_now, 'dispatch', 'FAILED', item_type || '/' || item_id, '{"status": "DISPATCHED"}', '{"status": "FAILED"}',
      jsonb_build_object('batchId', batch_id, 'error', last_error)
    from ended
    where status = 'FAILED'
  )
  delete from holdfast.dispatch_context as context
  using ended
  where context.item_type = ended.item_type and context.item_id = ended.item_id;
  perform holdfast.wake_results('dispatch');
  if 'RETRY' = any (outcomes) then
    return holdfast.fail_dispatch_items((
      select jsonb_agg(jsonb_build_object(
        'type', asked.item_type, 'id', asked.item_id, 'execution', asked.execution_id, 'from', 'DISPATCHED',
        'event', 'EXECUTION_FAILED', 'code', asked.code, 'message', asked.message
      ) order by asked.item_type, asked.item_id)
      from unnest(item_types, item_ids, execution_ids, outcomes, codes, messages)
        as asked (item_type, item_id, execution_id, outcome, code, message)
      where asked.outcome = 'RETRY'
    ));
  end if;
  return 0;
end
$$;

-- Ends the items of processes that have ended. A process that a business failure ended is COMPENSATED. FAILED is technical (a wait that
-- timed out), so the item is started again, unless the deadline has passed: another execution would be late too.
-- planner: looped
create or replace function holdfast.end_dispatched_processes(ids uuid[])
returns void
language plpgsql
as $$
declare
  v_types text[];
  v_items text[];
  v_executions text[];
  v_outcomes text[];
  v_codes text[];
  v_messages text[];
begin
  select array_agg(process.dispatch_type), array_agg(detail.dispatch_item), array_agg(detail.key),
    array_agg(case
      when process.status = 'COMPLETED' then 'COMPLETED'
      when process.status = 'FAILED' and detail.error_code is distinct from 'DEADLINE_EXCEEDED' then 'RETRY'
      else 'FAILED'
    end),
    array_agg(coalesce(detail.error_code, process.status)),
    array_agg(coalesce(detail.error_message, 'the process ended ' || process.status))
  into v_types, v_items, v_executions, v_outcomes, v_codes, v_messages
  from holdfast.process_detail as detail
  join holdfast.process on process.id = detail.id
  where detail.id = any (ids)
    and detail.dispatch_item is not null
    and process.status in ('COMPLETED', 'COMPENSATED', 'CANCELLED', 'FAILED');
  if v_types is not null then
    perform holdfast.end_dispatched(v_types, v_items, v_executions, v_outcomes, v_codes, v_messages);
  end if;
end
$$;

-- Ends the items of workflows that have ended. A failed workflow has been undone, and a cancelled or aborted one was an operator's
-- decision, so none of them is started again.
-- planner: looped
create or replace function holdfast.end_dispatched_workflows(ids uuid[])
returns void
language plpgsql
as $$
begin
  perform holdfast.end_dispatched(
    array_agg(dispatch_type), array_agg(dispatch_item), array_agg(key),
    array_agg(case when status = 'COMPLETED' then 'COMPLETED' else 'FAILED' end),
    array_agg(coalesce(failure ->> 'code', status)),
    array_agg(coalesce(failure ->> 'message', 'the workflow ended ' || status))
  )
  from holdfast.workflow
  where id = any (ids) and dispatch_item is not null and status in ('COMPLETED', 'FAILED', 'CANCELLED', 'ABORTED')
  having count(*) > 0;
end
$$;

-- Counts a failure of each of these items: it is READY again, or beyond the limit a dead letter. `from` is the status that the item must
-- have. `execution` is given if an execution failed, so that the next one gets a new id; a repeated start keeps its id, because it may
-- have happened already and is then recognised. The first retry comes after the interval, each later one after twice as long. Returns
-- how many became dead letters.
-- planner: looped
create or replace function holdfast.fail_dispatch_items(failures jsonb)
returns int
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_dead int;
begin
  with failed as (
    update holdfast.dispatch_item as item
    set retry_count = item.retry_count + 1,
        failed_executions = item.failed_executions + case when asked.execution is not null then 1 else 0 end,
        status = case when item.retry_count + 1 < config.max_dispatch_retries then 'READY' else 'DEAD_LETTER' end,
        due_at = case when item.retry_count + 1 < config.max_dispatch_retries then greatest(
          item.exec_time,
          v_now + least(300, greatest(config.dispatch_interval_secs, 1) * 2 ^ least(item.retry_count, 10)) * interval '1 second'
        ) end,
        check_at = null,
        updated_at = v_now,
        last_error = asked.code || ': ' || asked.message
    from jsonb_to_recordset(failures) as asked (
      type text, id text, execution text, "from" text, event text, code text, message text
    )
    join holdfast.dispatch_config as config on config.item_type = asked.type collate "C"
    where item.item_type = asked.type
      and item.item_id = asked.id
      and item.status = asked.from
      and (asked.execution is null or item.execution_id = asked.execution)
      and asked.id = asked.id || ''
    returning item.item_type, item.item_id, item.status, item.batch_id, item.retry_count, item.execution_id, asked.from,
      asked.event, asked.code, asked.message
  ),
  dead as (
    insert into holdfast.dispatch_dead_letter (item_type, item_id, since, error_code, error_message, fingerprint)
    select item_type, item_id, v_now, code, message, holdfast.dispatch_fingerprint(code, message)
    from failed
    where status = 'DEAD_LETTER'
    on conflict (item_type, item_id) do update
    set since = excluded.since, error_code = excluded.error_code, error_message = excluded.error_message,
        fingerprint = excluded.fingerprint, counted = false
    returning 1
  ),
  told as (
    insert into holdfast.audit (at, model, event, subject_name, before, after, detail)
    select v_now, 'dispatch', event, item_type || '/' || item_id, jsonb_build_object('status', failed.from),
      jsonb_build_object('status', status), jsonb_build_object(
        'batchId', batch_id, 'executionId', execution_id, 'retryCount', retry_count, 'error', code || ': ' || message
      )
    from failed
  )
  select count(*) into v_dead from dead;
  if v_dead > 0 then
    perform holdfast.wake_results('dispatch');
  end if;
  return v_dead;
end
$$;

-- The fingerprint of a failure: equal for failures of one code whose messages differ only in numbers, ids and quoted text.
create or replace function holdfast.dispatch_fingerprint(code text, message text)
returns text
language sql
immutable
parallel safe
begin atomic
  select left(md5(code || ' ' || regexp_replace(regexp_replace(
    message, '''[^'']*''|"[^"]*"|`[^`]*`', '?', 'g'), '[0-9a-fA-F-]*[0-9][0-9a-zA-Z-]*', '#', 'g')), 16);
end;
