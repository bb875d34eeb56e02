-- revision: 8
-- after: kernel, workflows-write
--
-- Starts of workflow instances: at once, with the engine's first decision, or later, as a queued start. The library, dispatch and
-- `holdfast.start` call these functions. They only insert, so they may run in a caller's transaction (K-15). What must not break: an
-- existing id or key is not changed, and an instance never exists without its first steps or its queued start.

-- Creates instances with their first decision. An instance that exists already, by its id or by its name and key, is not changed.
-- Returns, in order: the id, whether it was created, the workflow and version.
-- planner: indexed
create or replace function holdfast.start_workflow_instances(docs jsonb)
returns json
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_docs jsonb := docs;
  v_new uuid[];
begin
  with created as (
    insert into holdfast.workflow (
      id, definition_id, name, version, key, status, created_at, updated_at, ended_at, input, input_notes, output, output_notes,
      failed_step, failure
    )
    select
      id, definition_id, name, version, key, status, v_now, v_now, case when ended then v_now end, input, input_notes,
      output, output_notes, failed_step, failure
    from jsonb_to_recordset(docs) as asked (
      id uuid, definition_id int, name text, version int, key text, status text, ended boolean, input jsonb, input_notes jsonb,
      output jsonb, output_notes jsonb, failed_step text, failure jsonb
    )
    on conflict do nothing
    returning id
  )
  select array_agg(id) into v_new from created;
  if v_new is not null then
    if cardinality(v_new) < jsonb_array_length(docs) then
      select jsonb_agg(it order by place) into v_docs
      from jsonb_array_elements(docs) with ordinality as asked (it, place)
      where (it ->> 'id')::uuid = any (v_new);
    end if;
    perform holdfast.add_workflow_rows(v_docs, v_now);
    if v_docs @? '$[*] ? (@.status == "PENDING")' then
      perform holdfast.queue_instance_starts(
        array_agg(id), array_agg(definition_id),
        array_agg(coalesce(to_timestamp(start_ms / 1000), v_now + start_in_ms * interval '1 ms', v_now)),
        array_agg(unchecked is true)
      )
      from jsonb_to_recordset(v_docs) as asked (
        id uuid, definition_id int, status text, start_ms float8, start_in_ms float8, unchecked boolean
      )
      where status = 'PENDING';
    end if;
    if cardinality(v_new) = jsonb_array_length(docs) then
      return null;
    end if;
  end if;
  return (
    select json_agg(
      json_build_array(coalesce(same.id, keyed.id), asked.id = any (v_new), coalesce(same.name, keyed.name),
        coalesce(same.version, keyed.version))
      order by place
    )
    from jsonb_array_elements(docs) with ordinality as it (doc, place)
    cross join lateral jsonb_to_record(it.doc) as asked (id uuid, name text, key text)
    left join holdfast.workflow as same on same.id = asked.id
    left join holdfast.workflow as keyed on keyed.name = asked.name and keyed.key = asked.key
  );
end
$$;

-- Queues starts of instances that begin later, or were created without the engine: a step before the first one is due at their start,
-- and the worker that claims it lets the engine decide what comes first. If the input is unchecked and the workflow has a schema for it,
-- the start has a lane of its own, which only workers that have the definition claim; they check the input first.
create or replace function holdfast.queue_instance_starts(
  ids uuid[], definition_ids int[], starts timestamptz[], unchecked boolean[]
)
returns void
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_aging float4 := holdfast.workflow_aging();
begin
  insert into holdfast.workflow_step (
    workflow_id, number, definition_id, name, status, handler, due_at, ready, scheduled_at, priority, aging, rank, reached_at
  )
  select asked.id, -1, definition_id, lane, 'PENDING', lane, start_at, start_at <= v_now, start_at, 50, v_aging,
    holdfast.workflow_rank(start_at, 50, v_aging), v_now
  from unnest(ids, definition_ids, starts, unchecked) as asked (id, definition_id, start_at, is_unchecked)
  left join holdfast.workflow_definition as definition
    on asked.is_unchecked and definition.id = asked.definition_id and definition.checks_input
  cross join lateral (select concat('_root_', ' ' || definition.name || '-v' || definition.version) as lane) as named;
  perform holdfast.wake('workflows:_root_');
end
$$;
