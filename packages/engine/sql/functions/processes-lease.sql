-- revision: 1
-- after: kernel
--
-- Keeping claimed processes: heartbeat, giving back what was never begun, and ending a lease early. Workers and callers that
-- execute a process themselves use them. A process is ours as long as its `lease_epoch` is the one that our claim set. What
-- must not break: rows are locked in the order of their ids, and rows that another transaction holds are skipped, so that one
-- open transaction of a user never costs a worker its other leases.

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
