-- revision: 10
-- after: kernel, dispatch-begin, lost-claims, processes-read, processes-slots
--
-- Claims processes, called by each worker for the definitions that it has. A claim leases rows of `process` and returns everything that
-- their executions need, so that an execution begins without another query. What must not break: a claim never waits for a row that
-- another transaction has locked, reads one index per definition and version (K-17), and raises `lease_epoch` of each row that it
-- leases: every later write of the execution compares it.

-- One claim. A lane is a definition, one of its versions, and how many of it may execute at once (null: no limit).
-- planner: indexed, no sort
create or replace function holdfast.claim_processes(
  lane_types text[], lane_versions int[], lane_limits int[], lane_froms float8[], worker text, most int, lease_ms int,
  spare_leased boolean, ceiling_ms int
)
returns table (items json, marks json, next_due_ms float8)
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_newest_mark float8 := extract(epoch from v_now - interval '200 ms') * 1000;
  v_type text;
  v_limit int;
  v_ids uuid[] := '{}';
  v_lane_ids uuid[];
  v_lost uuid[] := '{}';
  v_lane_lost uuid[];
  v_items json := '[]';
  v_last timestamptz;
  v_left int := most;
  v_marks json[] := '{}';
  v_next timestamptz;
  v_lane_next timestamptz;
  v_dispatched boolean;
  v_found int;
begin
  for v_lane in 1 .. cardinality(lane_types) loop
    exit when v_left <= 0;
    v_type := lane_types[v_lane];
    continue when holdfast.is_paused(array['domain:' || split_part(v_type, '/', 1), 'definition:' || v_type]);
    v_limit := coalesce((select concurrency from holdfast.process_setting where type = v_type), lane_limits[v_lane]);
    if v_limit is not null then
      -- No watermark: a limited lane is claimed under a lock, and a worker that does not get the lock tries again.
      v_lane_ids := holdfast.claim_limited_processes(v_type, lane_versions[v_lane], lane_limits[v_lane], v_left, spare_leased);
      v_lane_lost := array(select id from holdfast.process where id = any (v_lane_ids) and leased_at is not null);
    else
      for v_try in 1 .. 2 loop
        select array_agg(due.id), max(due.due_at), bool_or(due.dispatched), count(*),
          array_agg(due.id) filter (where due.leased_at is not null)
        into v_lane_ids, v_last, v_dispatched, v_found, v_lane_lost
        from (
          select id, due_at, leased_at, dispatch_type is not null as dispatched
          from holdfast.process
          where type = v_type
            and version = lane_versions[v_lane]
            and due_at >= coalesce(to_timestamp(lane_froms[v_lane] / 1000), '-infinity')
            and due_at <= v_now
            and (leased_at is null or not spare_leased)
          order by due_at
          limit v_left
          for no key update skip locked
        ) due;
        exit when v_dispatched is not true;
        -- An execution that dispatch does not let begin now is due later, and makes room for the next ones.
        v_lane_ids := holdfast.admit_dispatched(v_lane_ids);
        exit when cardinality(v_lane_ids) = v_found;
      end loop;
      -- No watermark if some were refused and are still due.
      if v_dispatched is not true or cardinality(v_lane_ids) = v_found then
        v_marks := v_marks || json_build_object(
          'type', v_type || '@' || lane_versions[v_lane],
          'mark', case when coalesce(cardinality(v_lane_ids), 0) < v_left then v_newest_mark
            else least(v_newest_mark, floor(extract(epoch from v_last) * 1000)) end
        );
      end if;
    end if;
    if v_lane_ids is not null then
      v_left := v_left - cardinality(v_lane_ids);
      v_ids := v_ids || v_lane_ids;
      -- Dispatch may have refused some of them.
      v_lost := v_lost || array(select id from unnest(v_lane_lost) as id where id = any (v_lane_ids));
    end if;
    if v_left > 0 then
      select due_at into v_lane_next
      from holdfast.process
      where type = v_type
        and version = lane_versions[v_lane]
        and due_at > v_now
        and due_at <= v_now + ceiling_ms * interval '1 ms'
      order by due_at
      limit 1;
      v_next := least(v_next, v_lane_next);
    end if;
  end loop;
  if cardinality(v_ids) > 0 then
    v_items := holdfast.lease_processes(v_ids, worker, lease_ms);
    if cardinality(v_lost) > 0 then
      v_items := holdfast.weigh_lost_processes(v_items, v_lost);
    end if;
  end if;
  return query select
    v_items,
    array_to_json(v_marks),
    extract(epoch from v_next - v_now)::float8 * 1000;
end
$$;

-- Claimed items, with the loss record of those whose last claim was not released in order (K-26). The number of the last event tells
-- whether a process has made progress since the loss before.
-- planner: generic, no seqscan
create or replace function holdfast.weigh_lost_processes(items json, lost uuid[])
returns json
language plpgsql
as $$
declare
  v_ids text[];
  v_epochs int[];
  v_progresses text[];
begin
  select array_agg(process.id::text), array_agg(process.lease_epoch), array_agg(process.generation || '/' || coalesce((
    -- Events that only record interrupted calls are no progress.
    select max(seq)
    from holdfast.process_history as history
    where history.process_id = process.id
      and history.generation = process.generation
      and not coalesce(history.detail ? 'recovered', false)
  ), 0))
  into v_ids, v_epochs, v_progresses
  from holdfast.process
  where process.id = any (lost);
  return (
    with weighed as (
      select * from holdfast.weigh_lost_claims('processes', v_ids, v_epochs, v_progresses)
    )
    select json_agg(
      case when weighed.id is null then item
        else (item::jsonb || jsonb_build_object('lost', holdfast.lost_claim_json(
          weighed.lost_alone, weighed.lost_shared, weighed.counted, weighed.interrupted, weighed.first_to_try
        )))::json
      end
      order by place
    )
    from json_array_elements(items) with ordinality as claimed (item, place)
    left join weighed on weighed.id = item ->> 'id'
  );
end
$$;

-- Leases locked rows, and returns everything that their executions need.
-- planner: indexed
create or replace function holdfast.lease_processes(ids uuid[], worker text, lease_ms int)
returns json
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  -- A claim loads about 32 MB at most (K-23): for each process a page of its history and a page of its responses. The execution reads
  -- further pages itself. The first row is always included.
  v_page int := greatest(16777216 / cardinality(ids), 16384);
  v_items json;
begin
  with claimed as (
    update holdfast.process
    set due_at = v_now + lease_ms * interval '1 ms',
        queued_at = null,
        lease_epoch = lease_epoch + 1,
        leased_by = worker,
        leased_at = v_now
    where process.id = any (ids)
    returning *
  )
  select json_agg(json_build_object(
    'id', it.id, 'type', it.type, 'version', it.version, 'epoch', it.lease_epoch, 'status', it.status,
    'restedEpoch', it.rested_epoch, 'generation', it.generation, 'responseCount', it.responses, 'cancel', it.cancel,
    'limited', exists (select from holdfast.process_slot where process_id = it.id),
    'now', floor(extract(epoch from v_now) * 1000),
    'deadline', floor(extract(epoch from it.deadline_at) * 1000),
    'mismatchSince', floor(extract(epoch from it.mismatch_since) * 1000),
    'startAt', floor(extract(epoch from detail.start_at) * 1000),
    'unbegun', it.unbegun_epoch = it.lease_epoch - 1,
    'createdAt', floor(extract(epoch from it.created_at) * 1000),
    'key', detail.key, 'state', detail.state, 'stateNotes', detail.state_notes, 'stateResponses', detail.state_responses, 'stateUnmet', detail.state_unmet,
    'stateChecked', detail.state_checked,
    -- Rows as arrays: a history of thousands of rows is read at once, and field names would be most of it. A first claim has none.
    'history', case
      when not (it.lease_epoch > 1 or it.generation > 1) then null
      when (
        select sum(holdfast.most_bytes(result) + holdfast.most_bytes(history.detail))
        from holdfast.process_history as history
        where process_id = it.id and history.generation = it.generation
      ) > v_page then holdfast.read_process_history(it.id, it.generation, 0, v_page)
      else (
        select json_agg(json_build_array(
          seq, floor(extract(epoch from at) * 1000), kind, name, occurrence, history.status, attempt, seen,
          floor(extract(epoch from next_at) * 1000), result, notes, history.detail, epoch
        ) order by seq)
        from holdfast.process_history as history
        where process_id = it.id and history.generation = it.generation
      )
    end,
    'historyLength', case when it.lease_epoch > 1 or it.generation > 1 then (
      select max(seq) from holdfast.process_history as history where process_id = it.id and history.generation = it.generation
    ) end,
    'stateEvents', detail.state_events,
    -- Without responses that an earlier generation has used. By the index, because there may be a million of those.
    'responses', case
      when it.responses = 0 then null
      when (
        select sum(bytes)
        from (
          select holdfast.most_bytes(unmet.data) as bytes
          from jsonb_array_elements_text(coalesce(detail.state_unmet, '[]')) as kept (number)
          join holdfast.process_response as unmet on unmet.process_id = it.id and unmet.number = kept.number::int
          union all
          select holdfast.most_bytes(data)
          from holdfast.process_response
          where process_id = it.id and number > detail.state_responses
        ) as measured
      ) > v_page then holdfast.read_process_responses(it.id, 0, v_page)
      else (
        select json_agg(json_build_array(number, name, data, notes) order by number)
        from (
          select unmet.number, unmet.name, unmet.data, unmet.notes
          from jsonb_array_elements_text(coalesce(detail.state_unmet, '[]')) as kept (number)
          join holdfast.process_response as unmet on unmet.process_id = it.id and unmet.number = kept.number::int
          union all
          select number, name, data, notes
          from holdfast.process_response
          where process_id = it.id and number > detail.state_responses
        ) as response
      )
    end
  ))
  into v_items
  from claimed as it
  join holdfast.process_detail as detail on detail.id = it.id;
  return coalesce(v_items, '[]');
end
$$;
