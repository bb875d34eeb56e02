-- revision: 1
-- after: kernel
--
-- Responses to processes.

-- Records responses, each with its process's next number, and makes waiting processes due (P-11). The number stands on
-- the process's own row, which is locked here: the statement that pauses an execution compares it there, so no wake-up is
-- lost. Waiting for a retry or a person, or executing: recorded, and met when the process goes on.
-- Answers, in order: ["done" | "duplicate", number], ["held"], ["unknown"], ["other type"], or ["late", …] for a process
-- that has ended: nothing is recorded, whoever responded applies it to the projection (apply_late_response).
create or replace function holdfast.respond_processes(responses jsonb)
returns json
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
as $$
declare
  v_now timestamptz := holdfast.now();
  v_asked uuid[];
  v_mine uuid[];
  v_type text;
  v_live boolean;
  v_done int;
begin
  -- In the order of ids, each once: several responses may be for one process.
  v_asked := array(select distinct (it ->> 'id')::uuid from jsonb_array_elements(responses) as it order by 1);
  select array_agg(locked.id)
  into v_mine
  from unnest(v_asked) as asked (id)
  cross join lateral (
    select process.id
    from holdfast.process
    where process.id = asked.id and process.status not in ('COMPENSATED', 'COMPLETED', 'CANCELLED', 'FAILED')
    for no key update skip locked
  ) as locked;

  with asked as (
    select *
    from rows from (
      jsonb_to_recordset(responses) as (id uuid, type text, name text, response_id text, data jsonb, notes jsonb)
    ) with ordinality as asked (id, type, name, response_id, data, notes, place)
  ),
  new as (
    select asked.*, process.responses + row_number() over (partition by asked.id order by asked.place) as number
    from asked
    join holdfast.process on process.id = asked.id and process.type = asked.type
    where asked.id = any (v_mine)
      and not exists (
        select from holdfast.process_response as earlier
        where earlier.process_id = asked.id and earlier.response_id = asked.response_id
      )
  ),
  recorded as (
    insert into holdfast.process_response (process_id, number, name, response_id, at, data, notes)
    select id, number, name, response_id, v_now, data, notes from new
    returning process_id
  ),
  moved as (
    update holdfast.process
    set responses = process.responses + counted.count,
        due_at = case
          when leased_at is not null or queued_at is not null then due_at
          when status = 'WAITING_FOR_ASYNC' then least(due_at, v_now)
          -- What it waits for before it undoes.
          when status = 'COMPENSATING' and due_at is null then v_now
          else due_at
        end
    from (select process_id, count(*)::int as count from recorded group by process_id) as counted
    where process.id = counted.process_id
    returning process.type, leased_at is not null as live, counted.count
  )
  select sum(count), bool_or(live) into v_done, v_live from moved;
  if v_done > 0 then
    for v_type in select distinct it ->> 'type' from jsonb_array_elements(responses) as it loop
      perform holdfast.wake('processes:' || v_type);
    end loop;
    if v_live then
      perform holdfast.wake('processes:live');
    end if;
  end if;
  return (
    select json_agg(
      case
        when process.id is null then json_build_array('unknown')
        when process.type <> asked.type then json_build_array('other type', process.type)
        when recorded.number is not null then json_build_array('done', recorded.number)
        when process.status in ('COMPENSATED', 'COMPLETED', 'CANCELLED', 'FAILED') then json_build_array(
          'late', process.responses,
          -- One that ended without having rested before has shown nothing but what it began with.
          case when detail.projection_responses is null then detail.state else detail.projection end,
          case when detail.projection_responses is null then detail.state_notes else detail.projection_notes end,
          (
            select json_agg(json_build_array(number, name, data, notes) order by number)
            from holdfast.process_response
            where process_id = asked.id and number > coalesce(detail.projection_responses, detail.state_responses)
          )
        )
        else json_build_array('held')
      end
      order by asked.place
    )
    from rows from (
      jsonb_to_recordset(responses) as (id uuid, type text, response_id text)
    ) with ordinality as asked (id, type, response_id, place)
    left join holdfast.process on process.id = asked.id
    left join holdfast.process_detail as detail on detail.id = asked.id
    left join holdfast.process_response as recorded
      on recorded.process_id = asked.id and recorded.response_id = asked.response_id
  );
end
$$;

-- A response to a process that has ended: recorded, in the projection, audited, and nothing is replayed. Answers whether
-- it was applied; not when another response came between (its number is the fence).
create or replace function holdfast.apply_late_response(
  p_id uuid, p_after int, p_name text, p_response_id text, p_data jsonb, p_notes jsonb, p_projection jsonb,
  p_projection_notes jsonb
)
returns boolean
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
begin
  update holdfast.process
  set responses = responses + 1
  where id = p_id and responses = p_after and status in ('COMPENSATED', 'COMPLETED', 'CANCELLED', 'FAILED');
  if not found then
    return false;
  end if;
  insert into holdfast.process_response (process_id, number, name, response_id, at, data, notes)
  values (p_id, p_after + 1, p_name, p_response_id, v_now, p_data, p_notes);
  update holdfast.process_detail
  set projection = p_projection, projection_notes = p_projection_notes, projection_responses = p_after + 1, updated_at = v_now
  where id = p_id;
  insert into holdfast.audit (at, model, event, subject_id, detail)
  values (v_now, 'processes', 'LATE_ASYNC_RESPONSE', p_id, jsonb_build_object('response', p_name, 'number', p_after + 1));
  return true;
end
$$;

-- Puts responses into the inbox: only inserts, for callers' own transactions (K-15).
create or replace function holdfast.post_responses(responses jsonb)
returns void
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_type text;
begin
  insert into holdfast.process_inbox (id, type, process_ref, name, response_id, data, notes, checked, created_at, due_at)
  select asked.inbox_id, asked.type, asked.process_ref, asked.name, asked.response_id, asked.data, asked.notes,
    asked.checked, v_now, v_now
  from jsonb_to_recordset(responses) as asked (
    inbox_id uuid, type text, process_ref text, name text, response_id text, data jsonb, notes jsonb, checked boolean
  );
  for v_type in select distinct it ->> 'type' from jsonb_array_elements(responses) as it loop
    perform holdfast.wake('process-inbox:' || v_type);
  end loop;
end
$$;

-- The inbox: claimed like everything else. Items are few and small, and go in the order in which they came.
create or replace function holdfast.claim_inbox(
  lane_types text[], lane_froms float8[], worker text, most int, lease_ms int, spare_leased boolean, ceiling_ms int
)
returns table (items json, marks json, next_due_ms float8)
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
declare
  v_now timestamptz := holdfast.now();
  v_newest_mark float8 := extract(epoch from v_now - interval '200 ms') * 1000;
  v_ids uuid[] := '{}';
  v_lane_ids uuid[];
  v_last timestamptz;
  v_left int := most;
  v_marks json[] := '{}';
  v_next timestamptz;
  v_lane_next timestamptz;
begin
  for v_lane in 1 .. cardinality(lane_types) loop
    exit when v_left <= 0;
    select array_agg(due.id), max(due.due_at)
    into v_lane_ids, v_last
    from (
      select id, due_at
      from holdfast.process_inbox
      where type = lane_types[v_lane]
        and due_at >= coalesce(to_timestamp(lane_froms[v_lane] / 1000), '-infinity')
        and due_at <= v_now
        and (leased_at is null or not spare_leased)
      order by due_at
      limit v_left
      for no key update skip locked
    ) due;
    v_left := v_left - coalesce(cardinality(v_lane_ids), 0);
    if v_lane_ids is not null then
      v_ids := v_ids || v_lane_ids;
    end if;
    v_marks := v_marks || json_build_object(
      'type', lane_types[v_lane],
      'mark', case when v_left > 0 then v_newest_mark else least(v_newest_mark, floor(extract(epoch from v_last) * 1000)) end
    );
    if v_left > 0 then
      select due_at into v_lane_next
      from holdfast.process_inbox
      where type = lane_types[v_lane] and due_at > v_now and due_at <= v_now + ceiling_ms * interval '1 ms'
      order by due_at
      limit 1;
      v_next := least(v_next, v_lane_next);
    end if;
  end loop;
  return query
  with claimed as (
    update holdfast.process_inbox
    set due_at = v_now + lease_ms * interval '1 ms', lease_epoch = lease_epoch + 1, leased_by = worker, leased_at = v_now
    where id = any (v_ids)
    returning *
  )
  select
    coalesce((
      select json_agg(json_build_object(
        'id', id, 'type', type, 'epoch', lease_epoch, 'reference', process_ref, 'name', name, 'responseId', response_id,
        'data', data, 'notes', notes, 'checked', checked, 'ageMs', extract(epoch from v_now - created_at) * 1000
      ))
      from claimed
    ), '[]'),
    array_to_json(v_marks),
    extract(epoch from v_next - v_now)::float8 * 1000;
end
$$;

-- Hands in a response from any language, in the caller's transaction; `process` is the id or the key. It is checked
-- against its schema by the worker that hands it over; one that does not fit is audited as RESPONSE_REFUSED.
create or replace function holdfast.respond(
  domain text, type text, process text, response text, data jsonb, response_id text default gen_random_uuid()::text
)
returns void
language plpgsql
as $$
begin
  if coalesce(trim(domain), '') = '' or coalesce(trim(type), '') = '' then
    raise exception 'domain and type of the process must not be empty' using errcode = 'invalid_parameter_value';
  end if;
  if coalesce(process, '') = '' or coalesce(response, '') = '' or response like '@%' then
    raise exception 'process and response must be texts that are not empty, and a response does not begin with @'
      using errcode = 'invalid_parameter_value';
  end if;
  perform holdfast.post_responses(jsonb_build_array(jsonb_build_object(
    'inbox_id', gen_random_uuid(), 'type', domain || '/' || type, 'process_ref', process, 'name', response,
    'response_id', response_id, 'data', data, 'checked', false
  )));
end
$$;
