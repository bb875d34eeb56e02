-- revision: 5
-- after: kernel
--
-- Records responses to processes: from callers, from the inbox and from replies. The library calls it for many responses at once. What
-- must not break: a response id is recorded once for each process; responses are numbered on the row of the process, which is locked
-- here, so that a process that suspends at the same moment does not miss its response (P-09).

-- Records responses, each with its process's next number, and makes waiting processes due (P-11). The number is on the process's own
-- row, which is locked here: the statement that suspends an execution compares it, so no wake-up is lost. If the process waits for a
-- retry or an operator, or executes, the response is recorded and read when the process continues.
-- Returns, in order: ["done", number], ["held"], ["unknown"], ["other type"], ["late", …] for a process that has ended: nothing is
-- recorded, and the caller applies it to the projection (apply_late_response); or ["behind"] for a `direct` response while the inbox has
-- responses to the same process that were committed before it: it has to follow them (K-25).
-- planner: indexed
create or replace function holdfast.respond_processes(responses jsonb)
returns json
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_asked uuid[];
  v_mine uuid[];
  v_type text;
  v_live boolean;
  v_done int;
  v_behind uuid[];
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

  v_behind := array(
    select asked.id
    from jsonb_to_recordset(responses) as asked (id uuid, type text, direct boolean)
    join holdfast.process_detail as detail on detail.id = asked.id
    where asked.direct
      and exists (
        select from holdfast.process_inbox as earlier
        where earlier.type = asked.type
          and earlier.process_ref = any (array[asked.id::text, detail.key])
          and earlier.name not like '@%'
      )
  );
  with asked as (
    select *
    from rows from (
      jsonb_to_recordset(responses) as (
        id uuid, type text, name text, response_id text, data jsonb, notes jsonb, direct boolean
      )
    ) with ordinality as asked (id, type, name, response_id, data, notes, direct, place)
  ),
  -- The same response may come twice in one call.
  once as (
    select distinct on (asked.id, asked.response_id) asked.*
    from asked
    order by asked.id, asked.response_id, asked.place
  ),
  new as (
    select asked.*, process.responses + row_number() over (partition by asked.id order by asked.place) as number
    from once as asked
    join holdfast.process on process.id = asked.id and process.type = asked.type
    where asked.id = any (v_mine)
      and not (asked.direct is true and asked.id = any (v_behind))
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
          -- It waits for this before it compensates.
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
        when asked.direct and asked.id = any (v_behind) then json_build_array('behind')
        when process.status in ('COMPENSATED', 'COMPLETED', 'CANCELLED', 'FAILED') then json_build_array(
          'late', process.responses,
          -- A process that ended without ever suspending has no projection but its initial state.
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
      jsonb_to_recordset(responses) as (id uuid, type text, response_id text, direct boolean)
    ) with ordinality as asked (id, type, response_id, direct, place)
    left join holdfast.process on process.id = asked.id
    left join holdfast.process_detail as detail on detail.id = asked.id
    left join holdfast.process_response as recorded
      on recorded.process_id = asked.id and recorded.response_id = asked.response_id
  );
end
$$;

-- Applies a response to a process that has ended: recorded, in the projection, audited; nothing is replayed. Returns whether it was
-- applied; false if another response came first (its number is the fence).
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
