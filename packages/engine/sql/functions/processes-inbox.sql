-- revision: 7
-- after: kernel, processes-operate
--
-- The inbox of processes: responses from callers' transactions, from other languages and of ended children. Callers only insert. A
-- worker claims all rows of one process together and delivers them in the order of `place` (K-25). What must not break: the first row of
-- a group carries the lease, and while it is leased no worker takes a later row of the same process.

-- A caller may have several transactions open: responses are ordered by their commits. A constraint trigger fires when the transaction
-- commits. Our own rows (`@child`) need no order.
create or replace function holdfast.place_response()
returns trigger
language plpgsql
as $$
begin
  update holdfast.process_inbox set place = nextval('holdfast.process_inbox_place') where id = new.id;
  return null;
end
$$;

do $$
begin
  if not exists (
    select from pg_trigger where tgname = 'process_inbox_in_order' and tgrelid = 'holdfast.process_inbox'::regclass
  ) then
    create constraint trigger process_inbox_in_order
    after insert on holdfast.process_inbox
    deferrable initially deferred
    for each row
    when (new.name not like '@%')
    execute function holdfast.place_response();
  end if;
end
$$;

-- Puts responses into the inbox. It only inserts, for callers' own transactions (K-15). A row that exists already is the same response,
-- sent again because the database's reply was lost.
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
  from rows from (
    jsonb_to_recordset(responses) as (
      inbox_id uuid, type text, process_ref text, name text, response_id text, data jsonb, notes jsonb, checked boolean
    )
  ) with ordinality as asked (inbox_id, type, process_ref, name, response_id, data, notes, checked, place)
  order by asked.place
  on conflict (id) do nothing;
  for v_type in select distinct it ->> 'type' from jsonb_array_elements(responses) as it loop
    perform holdfast.wake('process-inbox:' || v_type);
  end loop;
end
$$;

-- The names under which inbox rows may refer to the same process: its id, its key, and what the caller wrote.
create or replace function holdfast.inbox_names(p_type text, p_ref text)
returns text[]
language sql
stable
as $$
  select array_remove(array[p_ref, detail.id::text, detail.key], null)
  from (select holdfast.process_id_of(p_type, p_ref) as id) as named
  left join holdfast.process_detail as detail on detail.id = named.id and detail.type = p_type
$$;

-- Claims the inbox, process by process. Rows that became due behind a leased group are moved to the end of its lease, so that claims do
-- not read them again and again; the worker that ends the group makes them due. Both lock the group's first row for this, so neither
-- misses the other: if it cannot be locked, the rows stay due.
-- planner: looped, no bitmapscan
create or replace function holdfast.claim_inbox_groups(
  lane_types text[], lane_froms float8[], worker text, most int, lease_ms int, spare_leased boolean, ceiling_ms int
)
returns table (items json, marks json, next_due_ms float8)
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_newest_mark float8 := extract(epoch from v_now - interval '200 ms') * 1000;
  v_type text;
  v_refs text[];
  v_ref text;
  v_names text[];
  v_taken text[];
  v_last timestamptz;
  v_count int;
  v_left int := most;
  v_item json;
  v_items json[] := '{}';
  v_marks json[] := '{}';
  v_next timestamptz;
  v_lane_next timestamptz;
begin
  for v_lane in 1 .. cardinality(lane_types) loop
    exit when v_left <= 0;
    v_type := lane_types[v_lane];
    v_taken := '{}';
    select array_agg(due.process_ref order by due.due_at), max(due.due_at), count(*)
    into v_refs, v_last, v_count
    from (
      select process_ref, due_at
      from holdfast.process_inbox
      where type = v_type
        and due_at between coalesce(to_timestamp(lane_froms[v_lane] / 1000), '-infinity') and v_now
        and (leased_at is null or not spare_leased)
      order by due_at
      limit v_left
      for no key update skip locked
    ) due;
    foreach v_ref in array coalesce(v_refs, '{}') loop
      continue when v_ref = any (v_taken);
      v_names := holdfast.inbox_names(v_type, v_ref);
      v_taken := v_taken || v_names;
      v_item := holdfast.lease_inbox_group(v_type, v_names, worker, v_now, lease_ms);
      if v_item is not null then
        v_items := v_items || v_item;
      end if;
    end loop;
    v_marks := v_marks || json_build_object(
      'type', v_type,
      'mark', case when v_count < v_left then v_newest_mark
        else least(v_newest_mark, floor(extract(epoch from v_last) * 1000)) end
    );
    v_left := v_left - v_count;
    if v_left > 0 then
      select due_at into v_lane_next
      from holdfast.process_inbox
      where type = v_type and due_at > v_now and due_at <= v_now + ceiling_ms * interval '1 ms'
      order by due_at
      limit 1;
      v_next := least(v_next, v_lane_next);
    end if;
  end loop;
  return query select array_to_json(v_items), array_to_json(v_marks), extract(epoch from v_next - v_now)::float8 * 1000;
end
$$;

-- Leases rows of one process: from the first row up to one that another transaction has locked, a hundred rows or 8 MB. Null if the
-- first is leased or locked.
-- planner: generic, no seqscan
create or replace function holdfast.lease_inbox_group(
  p_type text, p_names text[], p_worker text, p_now timestamptz, p_lease_ms int
)
returns json
language plpgsql
as $$
declare
  v_locked uuid[];
  v_leased uuid;
  v_until timestamptz;
  v_group uuid[];
  v_epoch int;
begin
  v_locked := array(
    select id from holdfast.process_inbox where type = p_type and process_ref = any (p_names) for no key update skip locked
  );
  select id, due_at
  into v_leased, v_until
  from holdfast.process_inbox
  where type = p_type and process_ref = any (p_names) and leased_at is not null and due_at > p_now
  limit 1;
  if v_leased is null then
    v_group := array(
      select id
      from (
        select id, place,
          bool_and(id = any (v_locked)) over up_to_here as mine,
          row_number() over up_to_here as number,
          sum(coalesce(pg_column_size(data), 0)) over up_to_here as bytes
        from holdfast.process_inbox
        where type = p_type and process_ref = any (p_names)
        window up_to_here as (order by place)
      ) as waiting
      where mine and (number = 1 or number <= 100 and bytes <= 8388608)
      order by place
    );
    v_until := p_now + p_lease_ms * interval '1 ms';
  end if;
  -- Behind a group whose first row we could lock: until its lease ends. Otherwise due now, for the next claim.
  update holdfast.process_inbox
  set due_at = case when v_leased = any (v_locked) or cardinality(v_group) > 0 then v_until else p_now end,
      leased_by = null,
      leased_at = null
  where id = any (v_locked) and id is distinct from v_leased and id is distinct from v_group[1];
  if coalesce(cardinality(v_group), 0) = 0 then
    return null;
  end if;
  update holdfast.process_inbox
  set due_at = v_until, lease_epoch = lease_epoch + 1, leased_by = p_worker, leased_at = p_now
  where id = v_group[1]
  returning lease_epoch into v_epoch;
  return (
    select json_build_object(
      'id', v_group[1], 'type', p_type, 'epoch', v_epoch,
      'responses', json_agg(json_build_object(
        'id', id, 'reference', process_ref, 'name', name, 'responseId', response_id, 'data', data, 'notes', notes,
        'checked', checked, 'ageMs', extract(epoch from p_now - created_at)::float8 * 1000
      ) order by place)
    )
    from holdfast.process_inbox
    where id = any (v_group)
  );
end
$$;

-- Ends the lease of a group: removes delivered rows, audits and removes refused ones, and makes the remaining rows of the process due
-- after `p_again_ms`. Returns false if the lease was lost; nothing is changed then.
-- planner: generic, no seqscan
create or replace function holdfast.finish_inbox_group(
  p_head uuid, p_epoch int, p_handed uuid[], p_refused jsonb, p_again_ms int
)
returns boolean
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_head holdfast.process_inbox;
  v_names text[];
begin
  select * into v_head from holdfast.process_inbox where id = p_head and lease_epoch = p_epoch for update;
  if not found then
    return false;
  end if;
  v_names := holdfast.inbox_names(v_head.type, v_head.process_ref);
  if jsonb_array_length(p_refused) > 0 then
    insert into holdfast.audit (at, model, event, subject_id, subject_name, detail)
    select v_now, 'processes', 'RESPONSE_REFUSED', process.id,
      case when process.id is null then row.type || ' ' || row.process_ref end,
      jsonb_build_object('response', row.name, 'response_id', row.response_id, 'data', row.data,
        'code', asked.code, 'message', asked.message)
    from jsonb_to_recordset(p_refused) as asked (id uuid, process_id uuid, code text, message text)
    join holdfast.process_inbox as row on row.id = asked.id
    left join holdfast.process on process.id = asked.process_id;
  end if;
  delete from holdfast.process_inbox
  where id = any (p_handed || array(select (it ->> 'id')::uuid from jsonb_array_elements(p_refused) as it));
  -- A statement of its own, begun after the first row was locked: it sees the rows that others have put behind the group.
  update holdfast.process_inbox
  set due_at = v_now + p_again_ms * interval '1 ms', leased_by = null, leased_at = null
  where type = v_head.type and process_ref = any (v_names);
  if found then
    perform holdfast.wake('process-inbox:' || v_head.type);
  end if;
  return true;
end
$$;

-- Releases groups that were claimed and not delivered. A group that another transaction has locked stays leased until its lease ends.
-- planner: looped
create or replace function holdfast.release_inbox(ids uuid[], epochs int[])
returns void
language plpgsql
as $$
declare
  v_head uuid;
  v_epoch int;
begin
  for v_head, v_epoch in
    select it.id, asked.epoch
    from (select * from unnest(ids, epochs) as asked (id, epoch) order by id) as asked
    cross join lateral (
      select id
      from holdfast.process_inbox
      where id = asked.id and lease_epoch = asked.epoch and leased_at is not null
      for update skip locked
    ) as it
  loop
    perform holdfast.finish_inbox_group(v_head, v_epoch, '{}', '[]', 0);
  end loop;
end
$$;
