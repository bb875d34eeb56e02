-- revision: 2
-- after: kernel, dispatch-begin
--
-- Definitions with a limit of concurrent executions (P-20). `claim_processes` calls `claim_limited_processes` for them. Each execution
-- has a row in `process_slot`; due processes beyond the limit have no `due_at` and queue by `queued_at`. What must not break: slots are
-- taken only under the definition's advisory lock, which a change of the limit takes too, so that there are never more executions than
-- the limit.

-- Claims processes of a limited definition (P-20). One worker at a time per definition; others do not wait for it. The lock belongs to
-- the transaction, and a change of the limit takes it too. A crashed process keeps its slot. Then come processes that crashed before
-- there was a limit, queued ones, oldest first, and those that have become due since. Due processes beyond the limit lose their due_at
-- and queue.
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
  -- Read under the lock: the limit may have been removed since the caller read it.
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
    -- Those that got a later start are not due any more.
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

-- How many slots are taken. If all are, slots of processes that no longer execute are freed first: a limit that an operator sets counts
-- running executions, and such an execution does not know that it has a slot to free.
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
