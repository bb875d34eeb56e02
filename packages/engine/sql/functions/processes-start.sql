-- revision: 1
-- after: kernel
--
-- Starting processes.

-- Creates processes, and leases those at once whose starter executes them itself. Only inserts, so it may run inside
-- anybody's transaction (K-15). Answers, in order: the id, whether it was created now, where it stands.
create or replace function holdfast.start_processes(starts jsonb)
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
  v_batches uuid[];
  v_created uuid[];
  v_type text;
begin
  if starts @? '$[*].batch_id' then
    v_batches := array(
      select batch_id
      from holdfast.batch
      where batch_id = any (array(
        select (it ->> 'batch_id')::uuid from jsonb_array_elements(starts) as it where it ->> 'batch_id' is not null
      )) and not sealed
      order by batch_id
      for key share
    );
  end if;
  with created as (
    insert into holdfast.process_detail (
      id, type, model, key, parent_id, parent_call, batch_id, attributes, created_at, start_at, updated_at, state,
      state_notes, waiting_for
    )
    select
      asked.id, asked.type, asked.model, asked.key, asked.parent_id, asked.parent_call, asked.batch_id, asked.attributes,
      v_now, greatest(v_now, to_timestamp(asked.start_ms / 1000)), v_now, asked.state, asked.notes,
      asked.first ->> 'name'
    from jsonb_to_recordset(starts) as asked (
      id uuid, type text, model text, key text, parent_id uuid, parent_call text, batch_id uuid, attributes jsonb,
      state jsonb, notes jsonb, start_ms float8, first jsonb
    )
    where asked.batch_id is null or asked.batch_id = any (v_batches)
    on conflict do nothing
    returning id, batch_id, type
  ),
  members as (
    insert into holdfast.batch_open (batch_id, command_id, domain)
    select batch_id, id, split_part(type, '/', 1) from created where batch_id is not null
  ),
  tallies as (
    insert into holdfast.batch_tally (batch_id, added)
    select batch_id, count(*) from created where batch_id is not null group by batch_id
  )
  select array_agg(id) into v_created from created;

  -- Those with a lease are executed by their starter, from the first moment; the others become due.
  insert into holdfast.process (id, type, version, status, due_at, lease_epoch, leased_by, leased_at, last_write, deadline_at)
  select
    asked.id, asked.type, asked.version, coalesce(asked.status, 'PENDING'),
    case
      when asked.lease_ms is not null then v_now + asked.lease_ms * interval '1 ms'
      when asked.model = 'PROCESS_STEP' then greatest(v_now, to_timestamp(asked.start_ms / 1000))
    end,
    case when asked.lease_ms is not null then 1 else 0 end,
    asked.worker,
    case when asked.lease_ms is not null then v_now end,
    asked.token,
    coalesce(to_timestamp(asked.deadline_ms / 1000), v_now + asked.deadline_in_ms * interval '1 ms')
  from jsonb_to_recordset(starts) as asked (
    id uuid, type text, model text, version int, status text, lease_ms int, worker text, token uuid, start_ms float8,
    deadline_ms float8, deadline_in_ms float8
  )
  where asked.id = any (v_created);

  for v_type in
    select distinct asked.type
    from jsonb_to_recordset(starts) as asked (type text, model text, lease_ms int)
    where asked.lease_ms is null and asked.model = 'PROCESS_STEP'
  loop
    perform holdfast.wake('processes:' || v_type);
  end loop;
  return (
    select json_agg(json_build_array(
      coalesce(process.id, existing.id),
      process.last_write is not distinct from asked.token and process.id is not null,
      case
        when asked.batch_id is not null and not asked.batch_id = any (v_batches) then 'batch closed'
        when coalesce(process.type, existing.type) <> asked.type then 'other type'
        else coalesce(process.status, (select status from holdfast.process where id = existing.id))
      end,
      floor(extract(epoch from v_now) * 1000),
      floor(extract(epoch from process.deadline_at) * 1000)
    ) order by asked.place)
    from rows from (
      jsonb_to_recordset(starts) as (id uuid, type text, key text, token uuid, batch_id uuid)
    ) with ordinality as asked (id, type, key, token, batch_id, place)
    left join holdfast.process on process.id = asked.id
    left join holdfast.process_detail as existing
      on process.id is null and existing.type = asked.type and existing.key = asked.key
  );
end
$$;

-- The same for a flush of many starters: an id or key that somebody is just inserting in an open transaction would make
-- the whole flush wait, so the wait is cut short and the starter whose key it is tried apart (K-05).
create or replace function holdfast.flush_starts(starts jsonb)
returns json
language sql
set lock_timeout = '100ms'
as $$
  select holdfast.start_processes(starts)
$$;
