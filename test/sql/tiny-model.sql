-- The smallest thing that obeys the law: a narrow row with a due_at. It exists to prove the kernel and to show the
-- shapes that the models' own tables and functions follow.
create table holdfast.tiny (
  id uuid primary key,
  type text not null,
  due_at timestamptz,
  lease_epoch int not null default 0,
  leased_by text,
  leased_at timestamptz,
  last_write uuid,
  constraint tiny_lease_is_whole check ((leased_by is null) = (leased_at is null))
) with (fillfactor = 50);
-- Claims go by type and due time; finished rows have no due_at and are not in it.
create index tiny_due on holdfast.tiny (type, due_at) where due_at is not null;

-- What ran, and how often: written by the items' own code, outside our transactions, so that double runs are seen.
create table holdfast.tiny_effect (
  tiny_id uuid not null,
  epoch int not null,
  worker text not null
);

-- One claim: for each type in the order given, from its watermark on, what is due and not held by anybody.
-- The planner settings are pinned because a plan that was cached while the table was nearly empty would scan for ever;
-- JIT is off because a switched-off plan node counts as so dear that every first call would be compiled (500 ms).
create or replace function holdfast.tiny_claim(
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
  -- A transaction that set its due_at a moment before it committed must still be above the mark.
  v_newest_mark float8 := extract(epoch from v_now - interval '200 ms') * 1000;
  v_type text;
  v_from timestamptz;
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
    v_type := lane_types[v_lane];
    continue when holdfast.is_paused(array['handler:' || v_type]);
    v_from := coalesce(to_timestamp(lane_froms[v_lane] / 1000), '-infinity');
    select array_agg(due.id), max(due.due_at)
    into v_lane_ids, v_last
    from (
      select id, due_at
      from holdfast.tiny
      where type = v_type
        and due_at >= v_from
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
    -- Looked through up to now if there was room left, else up to the last row taken.
    v_marks := v_marks || json_build_object(
      'type', v_type,
      'mark', least(v_newest_mark, case when v_left > 0 then v_newest_mark else floor(extract(epoch from v_last) * 1000) end)
    );
    if v_left > 0 then
      select due_at into v_lane_next
      from holdfast.tiny
      where type = v_type and due_at > v_now and due_at <= v_now + ceiling_ms * interval '1 ms'
      order by due_at
      limit 1;
      v_next := least(v_next, v_lane_next);
    end if;
  end loop;
  return query
  with claimed as (
    update holdfast.tiny
    set due_at = v_now + lease_ms * interval '1 ms',
        lease_epoch = lease_epoch + 1,
        leased_by = worker,
        leased_at = v_now
    where id = any (v_ids)
    returning id, type, lease_epoch
  )
  select
    coalesce((select json_agg(json_build_object('id', id, 'type', type, 'epoch', lease_epoch)) from claimed), '[]'),
    array_to_json(v_marks),
    extract(epoch from v_next - v_now)::float8 * 1000;
end
$$;

-- Heartbeat, giving back, and the age of the oldest due row: made for the table, as for those of the models.
select holdfast.make_extend_function('tiny', 'tiny', array['id'], array['uuid']);
select holdfast.make_ending_function('release_', 'tiny', 'tiny', array['id'], array['uuid'], 'type',
  p_changes => ', leased_by = null, leased_at = null');
select holdfast.make_oldest_function('tiny', 'tiny', 'it.type = lane.name');

-- Finishing: the fence (the row is locked and its epoch compared in the same statement), the change, the audit.
-- Answers, in the order of the ids: 0 done, 1 lease lost, 2 held by somebody else.
create or replace function holdfast.tiny_finish(ids uuid[], epochs int[], tokens uuid[])
returns int[]
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_now timestamptz := holdfast.now();
  v_free uuid[];
  v_free_epochs int[] := epochs;
  v_free_tokens uuid[] := tokens;
  v_done uuid[];
begin
  v_free := array(
    select id from holdfast.tiny where id = any (ids) order by id for no key update skip locked
  );
  -- Taken apart only when another transaction holds a row: comparing every row with every id was half of all that finishing 500 rows cost.
  if cardinality(v_free) = cardinality(ids) then
    v_free := ids;
  else
    select array_agg(asked.id), array_agg(asked.epoch), array_agg(asked.token)
    into v_free, v_free_epochs, v_free_tokens
    from unnest(ids, epochs, tokens) as asked (id, epoch, token)
    where asked.id = any (v_free);
  end if;
  with done as (
    update holdfast.tiny
    set due_at = null, lease_epoch = lease_epoch + 1, leased_by = null, leased_at = null, last_write = asked.token
    from unnest(v_free, v_free_epochs, v_free_tokens) as asked (id, epoch, token)
    where tiny.id = asked.id
      and tiny.lease_epoch = asked.epoch
      -- Always true, and estimated as one row: the loop begins with what was asked for, also in a plan that was made
      -- while the table was nearly empty and is kept.
      and asked.epoch = asked.epoch + 0
    returning tiny.id
  ),
  audited as (
    insert into holdfast.audit (at, model, event, subject_id)
    select v_now, 'tiny', 'COMPLETED', id from done
  )
  select array_agg(id) into v_done from done;
  -- The common case: everything asked for was done.
  if cardinality(v_done) = cardinality(ids) then
    return array_fill(0, array[cardinality(ids)]);
  end if;
  return array(
    select case
      when asked.id = any (v_done) then 0
      when tiny.last_write = asked.token then 0
      when tiny.id is null or tiny.lease_epoch <> asked.epoch then 1
      else 2
    end
    from unnest(ids, epochs, tokens) with ordinality as asked (id, epoch, token, place)
    left join holdfast.tiny on tiny.id = asked.id
    order by asked.place
  );
end
$$;
