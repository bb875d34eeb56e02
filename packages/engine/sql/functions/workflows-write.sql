-- revision: 9
-- after: kernel
--
-- Writes the engine's decisions about workflow instances, many in one statement (K-05), and reads the input of a decision. What must not
-- break: a decision is stored only if the instance still has the revision, and its steps the epochs, on which it was made; otherwise
-- nothing of it is stored.

-- When an item's priority reaches 100 (W-12). Without aging never: such items come after all that age, by priority. STABLE, as adding an
-- interval is, so that PostgreSQL inlines it.
create or replace function holdfast.workflow_rank(scheduled timestamptz, priority int, aging float4)
returns timestamptz
language sql
stable
parallel safe
begin atomic
  select case
    when priority >= 100 then scheduled
    when aging > 0 then scheduled + least((100 - priority) / aging::float8, 1e10) * interval '1 second'
    else timestamptz '9000-01-01 00:00:00+00' + (100 - priority) * interval '1 day'
  end;
end;

-- How fast waiting steps gain priority in this installation (W-12).
create or replace function holdfast.workflow_aging()
returns float4
language sql
stable
as $$
  select aging from holdfast.workflow_setting
$$;

-- Changes it for steps that are queued from now on. Returns the old value.
create or replace function holdfast.set_workflow_aging(p_aging float4, p_actor text, p_reason text)
returns float4
language plpgsql
as $$
declare
  v_before float4;
begin
  select aging into v_before from holdfast.workflow_setting for update;
  update holdfast.workflow_setting set aging = p_aging;
  insert into holdfast.audit (at, model, event, subject_name, actor, reason, before, after)
  values (holdfast.now(), 'workflows', 'CONFIGURED', 'aging', p_actor, p_reason,
    jsonb_build_object('aging', v_before), jsonb_build_object('aging', p_aging));
  return v_before;
end
$$;

-- The displayed priority.
create or replace function holdfast.shown_priority(priority int, aging float4, scheduled timestamptz, at timestamptz)
returns int
language sql
immutable
parallel safe
begin atomic
  select least(100, priority + floor(greatest(0, extract(epoch from at - scheduled)) * aging)::bigint)::int;
end;

-- The steps of documents, with what is left out filled in.
create or replace function holdfast.workflow_step_changes(docs jsonb, at timestamptz)
returns table (
  workflow_id uuid, definition_id int, number smallint, epoch int, name text, status text, queue text, handler text,
  compensates boolean, due timestamptz, priority smallint, in_flight boolean, abort boolean, attempts int,
  compensation_attempts int, outcome text, compensation_outcome text, ended_order int, side text, dlq boolean, ended boolean,
  has_input boolean, input jsonb, input_notes jsonb, has_output boolean, output jsonb, output_notes jsonb, failure jsonb
)
language sql
stable
parallel safe
begin atomic
  select
    doc.id, doc.definition_id, step.number, step.epoch, step.name, step.status, step.queue, step.handler,
    coalesce(step.compensates, false), case step.queue when 'add' then at + coalesce(step.delay_ms, 0) * interval '1 ms' end,
    step.priority, coalesce(step.in_flight, false), coalesce(step.abort, false), coalesce(step.attempts, 0),
    coalesce(step.compensation_attempts, 0), step.outcome, step.compensation_outcome, step.ended_order, step.side,
    coalesce(step.dlq, false), coalesce(step.ended, false), step.has_input, step.input, step.input_notes, step.has_output,
    step.output, step.output_notes, step.failure
  from jsonb_to_recordset(docs) as doc (id uuid, definition_id int, steps jsonb)
  cross join lateral jsonb_to_recordset(doc.steps) as step (
    number smallint, epoch int, name text, status text, queue text, handler text, compensates boolean, delay_ms float8,
    priority smallint, in_flight boolean, abort boolean, attempts int, compensation_attempts int, outcome text,
    compensation_outcome text, ended_order int, side text, dlq boolean, ended boolean, has_input boolean, input jsonb,
    input_notes jsonb, has_output boolean, output jsonb, output_notes jsonb, failure jsonb
  );
end;

-- Each document names an instance, the revision on which it was decided, the token of the write, and of every step that it changes
-- the epoch of its last claim. `queue` says what becomes of the step's place in the queue: keep, add or remove. What is false or 0 is
-- left out. Returns, in order: 0 done, now or by an earlier write with the same token, 1 decided on something that has changed,
-- 2 locked by another transaction; null where all are done. The documents come in the order of ids.
-- planner: indexed
create or replace function holdfast.write_workflow_changes(docs jsonb)
returns json
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_aging float4 := holdfast.workflow_aging();
  v_docs jsonb := docs;
  v_mine uuid[];
  v_dispatched uuid[];
  v_changed int;
  v_locked int;
begin
  select array_agg(locked.id)
  into v_mine
  from jsonb_to_recordset(docs) as asked (id uuid, revision int)
  cross join lateral (
    select workflow.id
    from holdfast.workflow
    where workflow.id = asked.id and workflow.revision = asked.revision
    for no key update skip locked
  ) as locked;
  if v_mine is null then
    return holdfast.workflow_write_answers(docs, '{}');
  end if;
  -- A claim changes a step without a decision, so the epochs of the steps are compared too.
  select count(*), count(locked.number)
  into v_changed, v_locked
  from jsonb_to_recordset(docs) as asked (id uuid, steps jsonb)
  cross join lateral jsonb_to_recordset(asked.steps) as step (number smallint, epoch int)
  left join lateral (
    select number
    from holdfast.workflow_step
    where workflow_id = asked.id and workflow_step.number = step.number and lease_epoch = step.epoch
    for no key update skip locked
  ) as locked on true
  where step.epoch is not null;
  if v_locked < v_changed then
    v_mine := array(
      select asked.id
      from jsonb_to_recordset(docs) as asked (id uuid, steps jsonb)
      where asked.id = any (v_mine)
        and not exists (
          select
          from jsonb_to_recordset(asked.steps) as step (number smallint, epoch int)
          where step.epoch is not null
            and not exists (
              select from holdfast.workflow_step
              where workflow_id = asked.id and workflow_step.number = step.number and lease_epoch = step.epoch
              for no key update skip locked
            )
        )
    );
  end if;
  if cardinality(v_mine) < jsonb_array_length(docs) then
    select jsonb_agg(it order by place) into v_docs
    from jsonb_array_elements(docs) with ordinality as asked (it, place)
    where (it ->> 'id')::uuid = any (v_mine);
    if v_docs is null then
      return holdfast.workflow_write_answers(docs, '{}');
    end if;
  end if;

  with decided as (
    update holdfast.workflow
    set revision = workflow.revision + 1,
        last_write = asked.token,
        updated_at = v_now,
        status = coalesce(asked.status, workflow.status),
        ended_at = case when asked.ended then v_now else workflow.ended_at end,
        output = case when asked.has_output then asked.output else workflow.output end,
        output_notes = case when asked.has_output then asked.output_notes else workflow.output_notes end,
        failed_step = case when asked.has_failure then asked.failed_step else workflow.failed_step end,
        failure = case when asked.has_failure then asked.failure else workflow.failure end
    from jsonb_to_recordset(v_docs) as asked (
      id uuid, revision int, token uuid, status text, ended boolean, has_output boolean, output jsonb,
      output_notes jsonb, has_failure boolean, failed_step text, failure jsonb
    )
    where workflow.id = asked.id and asked.revision = asked.revision + 0
    returning workflow.id, asked.ended and workflow.dispatch_item is not null as dispatched
  )
  select array_agg(id) filter (where dispatched) into v_dispatched from decided;

  update holdfast.workflow_step
  set status = asked.status,
      handler = case asked.queue when 'keep' then workflow_step.handler when 'add' then asked.handler end,
      compensates = case asked.queue when 'add' then asked.compensates else workflow_step.compensates end,
      due_at = case asked.queue when 'keep' then workflow_step.due_at when 'add' then asked.due end,
      ready = case asked.queue when 'keep' then workflow_step.ready when 'add' then asked.due <= v_now else false end,
      scheduled_at = case asked.queue when 'keep' then workflow_step.scheduled_at when 'add' then asked.due end,
      priority = case asked.queue when 'keep' then workflow_step.priority when 'add' then asked.priority end,
      aging = case asked.queue when 'keep' then workflow_step.aging when 'add' then v_aging end,
      rank = case asked.queue when 'keep' then workflow_step.rank
        when 'add' then holdfast.workflow_rank(asked.due, asked.priority, v_aging) end,
      leased_by = case asked.queue when 'keep' then leased_by end,
      leased_at = case asked.queue when 'keep' then leased_at end,
      in_flight = asked.in_flight,
      abort = case asked.queue when 'keep' then workflow_step.abort or asked.abort else false end,
      attempts = asked.attempts,
      compensation_attempts = asked.compensation_attempts,
      outcome = asked.outcome,
      compensation_outcome = asked.compensation_outcome,
      ended_order = asked.ended_order,
      side = asked.side,
      dlq = asked.dlq,
      started_at = case when asked.attempts > 0 then coalesce(started_at, v_now) end,
      ended_at = case when asked.ended then coalesce(ended_at, v_now) end,
      input = case when asked.has_input then asked.input else workflow_step.input end,
      input_notes = case when asked.has_input then asked.input_notes else workflow_step.input_notes end,
      output = case when asked.has_output then asked.output else workflow_step.output end,
      output_notes = case when asked.has_output then asked.output_notes else workflow_step.output_notes end,
      failure = asked.failure
  from (
    select step.*
    from holdfast.workflow_step_changes(v_docs, v_now) as step
    where step.epoch is not null
    offset 0
  ) as asked
  where workflow_step.workflow_id = asked.workflow_id and workflow_step.number = asked.number;
  perform holdfast.add_workflow_rows(v_docs, v_now);
  if v_docs @? '$[*] ? (@.removes_start == true)' then
    -- The first decision about an instance that waited for its start: it begins, or it is cancelled.
    delete from holdfast.workflow_step
    using jsonb_to_recordset(v_docs) as asked (id uuid, removes_start boolean)
    where workflow_id = asked.id and number = -1 and asked.removes_start;
  end if;
  if v_dispatched is not null then
    perform holdfast.end_dispatched_workflows(v_dispatched);
  end if;
  if v_docs @> '[{"ended": true}]' or v_docs @> '[{"status": "DLQ"}]' then
    perform holdfast.wake_results('workflows');
  end if;
  if cardinality(v_mine) = jsonb_array_length(docs) then
    return null;
  end if;
  return holdfast.workflow_write_answers(docs, v_mine);
end
$$;

-- The rows that a decision adds: reached steps, events, dead letters and human decisions; and the notifications for them.
-- planner: indexed
create or replace function holdfast.add_workflow_rows(docs jsonb, v_now timestamptz)
returns void
language plpgsql
as $$
declare
  v_aging float4 := holdfast.workflow_aging();
  v_handler text;
begin
  insert into holdfast.workflow_step (
    workflow_id, number, definition_id, name, status, handler, compensates, due_at, ready, scheduled_at, priority, aging, rank,
    in_flight, attempts, compensation_attempts, outcome, compensation_outcome, ended_order, side, dlq, reached_at, ended_at, input,
    input_notes, output, output_notes, failure
  )
  select
    workflow_id, number, definition_id, name, status, handler, compensates, due, coalesce(due <= v_now, false), due, priority,
    case when due is not null then v_aging end,
    case when due is not null then holdfast.workflow_rank(due, priority, v_aging) end,
    in_flight, attempts, compensation_attempts, outcome, compensation_outcome, ended_order, side, dlq, v_now,
    case when ended then v_now end, input, input_notes, output, output_notes, failure
  from holdfast.workflow_step_changes(docs, v_now)
  where epoch is null;

  insert into holdfast.audit (at, model, event, subject_id, actor, reason, detail)
  select v_now, 'workflows', event.type, doc.id, event.actor, event.reason, event.detail
  from jsonb_to_recordset(docs) as doc (id uuid, events jsonb)
  cross join lateral jsonb_to_recordset(doc.events) as event (type text, actor text, reason text, detail jsonb);

  if docs @? '$[*].removed_dead_letters' then
    delete from holdfast.workflow_dead_letter
    using (
      select doc.id, number::smallint
      from jsonb_to_recordset(docs) as doc (id uuid, removed_dead_letters jsonb)
      cross join lateral jsonb_array_elements_text(doc.removed_dead_letters) as number
    ) as gone
    where workflow_dead_letter.workflow_id = gone.id and workflow_dead_letter.number = gone.number;
  end if;
  if docs @? '$[*].dead_letters' then
    insert into holdfast.workflow_dead_letter (
      id, workflow_id, number, workflow_name, workflow_version, step, step_type, kind, input, input_notes, failure, fingerprint,
      reason, created_at
    )
    select
      letter.id, doc.id, letter.number, workflow.name, workflow.version, letter.step, letter.type, letter.kind, letter.input,
      letter.input_notes, letter.failure, letter.failure ->> 'fingerprint', letter.reason, v_now
    from jsonb_to_recordset(docs) as doc (id uuid, dead_letters jsonb)
    join holdfast.workflow on workflow.id = doc.id
    cross join lateral jsonb_to_recordset(doc.dead_letters) as letter (
      id uuid, number smallint, step text, type text, kind text, input jsonb, input_notes jsonb, failure jsonb, reason text
    )
    on conflict (workflow_id, number) do update
    set id = excluded.id, kind = excluded.kind, input = excluded.input, input_notes = excluded.input_notes,
        failure = excluded.failure, fingerprint = excluded.fingerprint, reason = excluded.reason,
        created_at = excluded.created_at;
  end if;
  if docs @? '$[*].decisions' then
    insert into holdfast.workflow_decision (workflow_id, step, decision, actor, reason, at)
    select doc.id, it.step, it.decision, it.actor, it.reason, v_now
    from jsonb_to_recordset(docs) as doc (id uuid, decisions jsonb)
    cross join lateral jsonb_to_recordset(doc.decisions) as it (step text, decision text, actor text, reason text);
  end if;

  -- Workers of delayed steps too: the step may fall due before their next poll.
  for v_handler in
    select distinct step.handler
    from jsonb_to_recordset(docs) as doc (steps jsonb)
    cross join lateral jsonb_to_recordset(doc.steps) as step (queue text, handler text)
    where step.queue = 'add'
  loop
    perform holdfast.wake('workflows:' || v_handler);
  end loop;
  if docs @? '$[*].steps[*] ? (@.abort == true)' then
    perform holdfast.wake('workflows:abort');
  end if;
end
$$;

create or replace function holdfast.workflow_write_answers(docs jsonb, mine uuid[])
returns json
language sql
stable
as $$
  select json_agg(
    case
      when asked.id = any (mine) or workflow.last_write = asked.token then 0
      when workflow.revision is distinct from asked.revision then 1
      when exists (
        select
        from jsonb_to_recordset(asked.steps) as step (number smallint, epoch int)
        left join holdfast.workflow_step on workflow_id = asked.id and workflow_step.number = step.number
        where step.epoch is not null and workflow_step.lease_epoch is distinct from step.epoch
      ) then 1
      else 2
    end
    order by place
  )
  from jsonb_array_elements(docs) with ordinality as it (doc, place)
  cross join lateral jsonb_to_record(it.doc) as asked (id uuid, revision int, token uuid, steps jsonb)
  left join holdfast.workflow on workflow.id = asked.id
$$;

-- The input of a decision about instances. Payloads are text, because conditions compare every digit of a number.
-- planner: looped, no bitmapscan
create or replace function holdfast.load_workflows(ids uuid[])
returns table (
  id uuid, definition_id int, revision int, last_write uuid, status text, input text, input_notes jsonb, output text,
  output_notes jsonb, failed_step text, failure jsonb, steps json
)
language plpgsql
stable
as $$
begin
  return query
  select
    workflow.id, workflow.definition_id, workflow.revision, workflow.last_write, workflow.status, workflow.input::text,
    workflow.input_notes, workflow.output::text, workflow.output_notes, workflow.failed_step, workflow.failure,
    (
      select json_agg(json_build_array(
        step.number, step.lease_epoch, step.status, step.input::text, step.input_notes, step.output::text, step.output_notes,
        step.attempts, step.compensation_attempts, step.ended_order, step.in_flight, step.side, step.failure, step.dlq,
        step.outcome, step.compensation_outcome
      ) order by step.number)
      from holdfast.workflow_step as step
      where step.workflow_id = workflow.id and step.number >= 0
    )
  from unnest(ids) as asked (id)
  join holdfast.workflow on workflow.id = asked.id;
end
$$;
