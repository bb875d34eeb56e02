-- revision: 8
-- after: kernel, dispatch-begin, lost-claims
--
-- Claiming processes and keeping them: the claim with everything that an execution needs, heartbeat, giving back.

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
      -- Never marked as looked through: a limited lane is claimed under a lock, and whoever does not get it comes again.
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
        -- What dispatch does not let begin now is due later, and makes room for what is behind it.
        v_lane_ids := holdfast.admit_dispatched(v_lane_ids);
        exit when cardinality(v_lane_ids) = v_found;
      end loop;
      -- Not marked as looked through where some were refused and are still due.
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
      -- Dispatch may not have let all of them begin.
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

-- Claimed items with what is known of those whose last claim was not released in order (K-26). The last record tells
-- whether a process has got on since it was lost the time before.
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
    -- That calls were interrupted is on record too, and is nothing new.
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

-- Ends leases now. The processes' code has ended and left no record: they stay not released (K-19).
-- planner: no seqscan
create or replace function holdfast.expire_processes(ids uuid[], epochs int[])
returns void
language plpgsql
as $$
declare
  v_type text;
begin
  for v_type in
    with free as (
      select process.id
      from holdfast.process
      join unnest(ids, epochs) as asked (id, epoch) on asked.id = process.id and asked.epoch = process.lease_epoch
      where leased_at is not null
      order by process.id
      for no key update of process skip locked
    ),
    expired as (
      update holdfast.process set due_at = holdfast.now() where id in (select id from free) returning type
    )
    select distinct type from expired
  loop
    perform holdfast.wake('processes:' || v_type);
  end loop;
end
$$;

-- What of a limited definition may execute now (P-20). One claimer at a time per definition, and nobody waits for it:
-- the lock is the transaction's, and whoever changes the limit takes it too. A crashed process keeps its slot. Then come
-- those that crashed before there was a limit, those that queue, oldest first, and what has become due since. What is due
-- beyond the limit loses its due_at and queues.
-- planner: generic, no seqscan
create or replace function holdfast.claim_limited_processes(
  p_type text, p_version int, p_limit int, p_most int, spare_leased boolean
)
returns uuid[]
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_limit int;
  v_free int;
  v_crashed uuid[];
  v_new uuid[] := '{}';
  v_due uuid[];
begin
  if not pg_try_advisory_xact_lock(holdfast.slots_lock(p_type)) then
    return null;
  end if;
  -- Read under the lock: the limit may have gone since the caller looked.
  v_limit := coalesce((select concurrency from holdfast.process_setting where type = p_type), p_limit);
  if v_limit is null then
    return null;
  end if;
  v_crashed := array(
    select process.id
    from holdfast.process
    join holdfast.process_slot on process_slot.process_id = process.id
    where process.type = p_type and version = p_version and due_at <= v_now and leased_at is not null and not spare_leased
    order by due_at
    limit p_most
    for no key update of process skip locked
  );
  v_free := v_limit - holdfast.count_slots(p_type, v_limit);
  v_free := least(v_free, p_most - cardinality(v_crashed));
  if v_free > 0 and not spare_leased then
    v_new := array(
      select id from holdfast.process
      where type = p_type and version = p_version and due_at <= v_now and leased_at is not null
        and not exists (select from holdfast.process_slot where process_id = process.id)
      order by due_at
      limit v_free
      for no key update skip locked
    );
  end if;
  if v_free > cardinality(v_new) then
    v_new := v_new || array(
      select id from holdfast.process
      where type = p_type and queued_at is not null and version = p_version
      order by queued_at
      limit v_free - cardinality(v_new)
      for no key update skip locked
    );
  end if;
  v_due := array(
    select id from holdfast.process
    where type = p_type and version = p_version and due_at <= v_now and leased_at is null
    order by due_at
    limit greatest(p_most, 1000)
    for no key update skip locked
  );
  v_free := v_free - cardinality(v_new);
  if v_free > 0 then
    v_new := v_new || v_due[1:v_free];
    v_due := v_due[v_free + 1:];
  end if;
  if exists (select from holdfast.process where id = any (v_new) and dispatch_type is not null) then
    v_new := holdfast.admit_dispatched(v_new);
    -- Those that have been given a later start are not due any more.
    v_due := array(
      select id from unnest(v_due) with ordinality as due (id, place)
      where exists (select from holdfast.process where process.id = due.id and due_at <= v_now)
      order by place
    );
  end if;
  update holdfast.process set queued_at = due_at, due_at = null where id = any (v_due);
  insert into holdfast.process_slot (process_id, type)
  select id, p_type from unnest(v_new) as id
  on conflict do nothing;
  return nullif(v_crashed || v_new, '{}');
end
$$;

create or replace function holdfast.slots_lock(p_type text)
returns bigint
language sql
stable
as $$
  select hashtextextended('holdfast slots ' || p_type, (select tableoid from holdfast.clock)::bigint)
$$;

-- How many slots are taken. When all are, those of processes that no longer execute are given up first: a limit that an
-- operator sets counts what executes already, and such an execution does not know that it has a slot to give back.
create or replace function holdfast.count_slots(p_type text, p_limit int)
returns int
language plpgsql
as $$
declare
  v_taken int := (select count(*) from holdfast.process_slot where type = p_type);
begin
  if v_taken >= p_limit then
    delete from holdfast.process_slot
    where process_id = any (array(
      select slot.process_id
      from holdfast.process_slot as slot
      join holdfast.process on process.id = slot.process_id
      where slot.type = p_type and process.leased_at is null
      for update of slot skip locked
    ));
    v_taken := (select count(*) from holdfast.process_slot where type = p_type);
  end if;
  return v_taken;
end
$$;

-- How many bytes a value takes as JSON, at most: what is stored compressed is up to about a hundred times as long, and is not read for this.
create or replace function holdfast.most_bytes(p_value jsonb)
returns int
language sql
immutable
parallel safe
begin atomic
  select coalesce(pg_column_size(p_value) * case when pg_column_compression(p_value) is null then 1 else 100 end, 0);
end;

-- The next page of a history, after the record with the number `p_after`; at least one record where there is one. Row by row: each value is
-- measured once, and nothing behind the page is read.
create or replace function holdfast.read_process_history(p_id uuid, p_generation int, p_after int, p_bytes int)
returns json
language plpgsql
stable
as $$
declare
  v_row holdfast.process_history;
  v_rows json[] := '{}';
  v_next json;
  v_bytes int := 0;
begin
  for v_row in
    select * from holdfast.process_history
    where process_id = p_id and generation = p_generation and seq > p_after
    order by seq
  loop
    v_next := json_build_array(
      v_row.seq, floor(extract(epoch from v_row.at) * 1000), v_row.kind, v_row.name, v_row.occurrence, v_row.status, v_row.attempt,
      v_row.seen, floor(extract(epoch from v_row.next_at) * 1000), v_row.result, v_row.notes, v_row.detail, v_row.epoch
    );
    v_bytes := v_bytes + octet_length(v_next::text);
    exit when v_bytes > p_bytes and cardinality(v_rows) > 0;
    v_rows := v_rows || v_next;
    exit when v_bytes > p_bytes;
  end loop;
  return array_to_json(v_rows);
end
$$;

-- The same of the responses that a claim would tell of.
create or replace function holdfast.read_process_responses(p_id uuid, p_after int, p_bytes int)
returns json
language plpgsql
stable
as $$
declare
  v_row record;
  v_rows json[] := '{}';
  v_next json;
  v_bytes int := 0;
begin
  for v_row in
    select unmet.number, unmet.name, unmet.data, unmet.notes
    from holdfast.process_detail as detail,
      jsonb_array_elements_text(coalesce(detail.state_unmet, '[]')) as kept (number),
      holdfast.process_response as unmet
    where detail.id = p_id
      and unmet.process_id = p_id
      and unmet.number = kept.number::int
      and unmet.number > p_after
    union all
    select response.number, response.name, response.data, response.notes
    from holdfast.process_response as response
    where response.process_id = p_id
      and response.number > greatest(p_after, (select state_responses from holdfast.process_detail where id = p_id))
    order by number
  loop
    v_next := json_build_array(v_row.number, v_row.name, v_row.data, v_row.notes);
    v_bytes := v_bytes + octet_length(v_next::text);
    exit when v_bytes > p_bytes and cardinality(v_rows) > 0;
    v_rows := v_rows || v_next;
    exit when v_bytes > p_bytes;
  end loop;
  return array_to_json(v_rows);
end
$$;

-- Leases rows that are locked already, and tells everything that an execution needs of them.
-- planner: indexed
create or replace function holdfast.lease_processes(ids uuid[], worker text, lease_ms int)
returns json
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  -- A claim loads about 32 MB at most (K-23): of each process a page of its history and one of its responses. Larger ones are read on by
  -- the execution, page by page. The first row is always in it.
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
    -- Rows as lists: a history of thousands is read at once, and names would be most of it. A first claim has none.
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
    -- Not what an earlier generation has done with: only by the index, since there may be a million of those.
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

-- The heartbeat: as in the other models, in the order of ids, skipping what somebody holds.
-- planner: looped
create or replace function holdfast.extend_processes(ids uuid[], epochs int[], lease_ms int)
returns table (extended json, lost json)
language plpgsql
as $$
declare
  v_free uuid[];
  v_free_epochs int[] := epochs;
begin
  v_free := array(
    select process.id from holdfast.process where process.id = any (ids) order by process.id for no key update skip locked
  );
  if cardinality(v_free) = cardinality(ids) then
    v_free := ids;
  else
    select array_agg(asked.id), array_agg(asked.epoch)
    into v_free, v_free_epochs
    from unnest(ids, epochs) as asked (id, epoch)
    where asked.id = any (v_free);
  end if;
  return query
  with moved as (
    update holdfast.process
    set due_at = holdfast.now() + lease_ms * interval '1 ms'
    from unnest(v_free, v_free_epochs) as asked (id, epoch)
    where process.id = asked.id
      and process.lease_epoch = asked.epoch
      and process.leased_at is not null
      and asked.epoch = asked.epoch + 0
    returning process.id
  )
  select
    (select coalesce(json_agg(moved.id), '[]') from moved),
    (
      select coalesce(json_agg(asked.id), '[]')
      from unnest(ids, epochs) as asked (id, epoch)
      left join holdfast.process on process.id = asked.id
      where process.id is null or process.lease_epoch <> asked.epoch or process.leased_at is null
    );
end
$$;

-- Gives back what was claimed and never begun; it does not count as a crash, and a crash before it is not forgotten.
create or replace function holdfast.release_processes(ids uuid[], epochs int[])
returns void
language plpgsql
as $$
declare
  v_type text;
begin
  for v_type in
    with free as (
      select process.id
      from holdfast.process
      join unnest(ids, epochs) as asked (id, epoch) on asked.id = process.id and asked.epoch = process.lease_epoch
      where leased_at is not null
      order by process.id
      for no key update of process skip locked
    ),
    freed as (
      delete from holdfast.process_slot where process_id in (select id from free)
    ),
    released as (
      update holdfast.process
      set due_at = holdfast.now(), leased_by = null, leased_at = null, rested_epoch = rested_epoch + 1,
          -- Of what was dispatched: it has still not begun.
          unbegun_epoch = case when unbegun_epoch = lease_epoch - 1 then lease_epoch end
      where id in (select id from free)
      returning type
    )
    select distinct type from released
  loop
    -- Due before anybody would look again, and its slot may be what others wait for.
    perform holdfast.wake('processes:' || v_type);
  end loop;
end
$$;
