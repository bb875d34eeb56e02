-- The ceiling of the workload `loop`: the least that PostgreSQL must do to claim and complete an item of
-- holdfast.tiny with one audit row. Written for the bench alone; it has no fence, so nobody should work with it.

-- `id = any (array(...))` and pinned planner settings: a join with the locked rows would become a hash join with a
-- scan of the whole table at batches of 500 and more.
create function holdfast.hand_claim(wanted text, most int)
returns uuid[]
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
  v_ids uuid[];
begin
  with claimed as (
    update holdfast.tiny
    set due_at = now() + interval '30 s', lease_epoch = lease_epoch + 1
    where id = any (array(
      select id
      from holdfast.tiny
      where type = wanted and due_at <= now()
      order by due_at
      limit most
      for no key update skip locked
    ))
    returning id
  )
  select array_agg(id) into v_ids from claimed;
  return v_ids;
end
$$;

create function holdfast.hand_complete(ids uuid[])
returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  with done as (
    update holdfast.tiny
    set due_at = null
    where id = any (ids)
    returning id
  )
  insert into holdfast.audit (at, model, event, subject_id)
  select now(), 'tiny', 'COMPLETED', id
  from done;
end
$$;
