-- revision: 8
-- after: kernel, workflows-write, presence
--
-- Queries of operators and housekeeping on workflows: steps that wait for a handler that no worker has, removing instances that ended
-- long ago, and retrying a step at once. Chores and handles call them. What must not break: an instance with a dead letter is never
-- removed.

-- Handlers that steps wait for and that no worker has had for two minutes (W-04): recorded on the step that has waited longest, at most
-- once a minute each. Delayed steps without a handler are not made ready by any claim, so both indexes are read.
-- planner: no seqscan
create or replace function holdfast.note_missing_handlers()
returns table (handler text, waiting bigint, oldest_seconds float8)
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
begin
  return query
  with recursive ready as (
    (select step.handler as name from holdfast.workflow_step as step where step.ready order by step.handler limit 1)
    union all
    select (
      select step.handler
      from holdfast.workflow_step as step
      where step.ready and step.handler > ready.name
      order by step.handler
      limit 1
    )
    from ready
    where ready.name is not null
  ),
  delayed as (
    (
      select step.handler as name
      from holdfast.workflow_step as step
      where not step.ready and step.due_at is not null
      order by step.handler
      limit 1
    )
    union all
    select (
      select step.handler
      from holdfast.workflow_step as step
      where not step.ready and step.due_at is not null and step.handler > delayed.name
      order by step.handler
      limit 1
    )
    from delayed
    where delayed.name is not null
  ),
  missing as (
    select queued.name
    from (select name from ready union select name from delayed) as queued
    where queued.name is not null and holdfast.is_absent(holdfast.last_seen('workflows', queued.name), interval '2 minutes')
  ),
  longest as (
    select missing.name as wanted, step.*
    from missing
    cross join lateral (
      (
        select it.workflow_id, it.name, it.status, it.scheduled_at
        from holdfast.workflow_step as it
        where it.handler = missing.name and it.ready
        order by it.rank, it.scheduled_at
        limit 1
      )
      union all
      (
        select it.workflow_id, it.name, it.status, it.scheduled_at
        from holdfast.workflow_step as it
        where it.handler = missing.name and not it.ready and it.due_at <= v_now
        order by it.due_at
        limit 1
      )
      order by scheduled_at
      limit 1
    ) as step
  ),
  told as (
    insert into holdfast.missed_handler as known (handler, missed_at)
    select wanted, v_now from longest order by wanted
    on conflict on constraint missed_handler_pkey do update set missed_at = v_now
    where known.missed_at <= v_now - interval '1 minute'
    returning known.handler
  ),
  noted as (
    insert into holdfast.audit (at, model, event, subject_id, detail)
    select v_now, 'workflows', 'step_skipped_missing_handler', longest.workflow_id,
      jsonb_build_object('step', longest.name, 'status', longest.status, 'handler', longest.wanted)
    from longest
    join told on told.handler = longest.wanted
  )
  select
    longest.wanted,
    -- Counts up to a limit, which is enough to see the size of the backlog.
    (
      select count(*)
      from (select from holdfast.workflow_step as it where it.handler = longest.wanted and it.ready limit 10000) as first_ones
    ) + (
      select count(*)
      from (
        select
        from holdfast.workflow_step as it
        where it.handler = longest.wanted and not it.ready and it.due_at <= v_now
        limit 10000
      ) as first_ones
    ),
    extract(epoch from v_now - longest.scheduled_at)::float8
  from longest;
end
$$;

-- Removes instances that ended before a moment, oldest first, with all their rows (W-14). An instance with a dead letter waits for an
-- operator and is kept. The audit trail has a retention of its own.
-- planner: no seqscan
create or replace function holdfast.clean_up_workflows(statuses text[], before timestamptz, most int)
returns int
language plpgsql
as $$
declare
  v_ids uuid[];
begin
  v_ids := array(
    select id
    from holdfast.workflow
    where ended_at < before
      and status = any (statuses)
      and not exists (select from holdfast.workflow_dead_letter where workflow_id = workflow.id)
      -- A call that has not reported its end yet.
      and not exists (select from holdfast.workflow_step where workflow_id = workflow.id and due_at is not null)
    order by ended_at
    limit most
    for update skip locked
  );
  delete from holdfast.workflow_step where workflow_id = any (v_ids);
  delete from holdfast.workflow_decision where workflow_id = any (v_ids);
  delete from holdfast.workflow where id = any (v_ids);
  return cardinality(v_ids);
end
$$;

-- Makes a step that waits for its next attempt due at once.
create or replace function holdfast.retry_workflow_step(p_id uuid, p_step text, p_actor text, p_reason text)
returns boolean
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_handler text;
begin
  with due as (
    update holdfast.workflow_step
    -- It has waited since now. With the time of its retry it would come after everything that is due.
    set due_at = v_now, ready = true, scheduled_at = v_now, rank = holdfast.workflow_rank(v_now, priority, aging)
    -- One that is due at infinity is paused and does not wait for its next attempt: this call would change nothing of that.
    where workflow_id = p_id and name = p_step and handler is not null and not ready and leased_at is null
      and due_at < 'infinity'
    returning *
  ),
  noted as (
    insert into holdfast.audit (at, model, event, subject_id, actor, reason, detail)
    select v_now, 'workflows', 'step_retry', workflow_id, p_actor, p_reason,
      jsonb_build_object('step', name, 'status', status, 'attempts', attempts, 'now', true)
    from due
  )
  select handler into v_handler from due;
  if v_handler is null then
    return false;
  end if;
  perform holdfast.wake('workflows:' || v_handler);
  return true;
end
$$;
