-- revision: 8
-- after: kernel
--
-- Starts processes: from callers, from other processes and through SQL. It only inserts, so it may run in a caller's transaction (K-15).
-- What must not break: an id or key that exists already starts nothing; a process and its place in a batch are written together; a
-- process that its caller executes itself is leased from the first moment, so that no worker claims it too.

-- Creates processes, and leases those that their callers execute themselves. It only inserts, so it may run inside a caller's
-- transaction (K-15). Returns, in order: the id, whether it was created now, its status.
-- planner: indexed
create or replace function holdfast.start_processes(starts jsonb)
returns json
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_batches uuid[];
  v_created uuid[];
  v_type text;
begin
  if exists (select from holdfast.pause) and starts @? '$[*].lease_ms' then
    -- Paused: its caller does not execute it; a worker does when it is resumed (K-18).
    starts := (
      select jsonb_agg(
        case when it ? 'lease_ms' and holdfast.is_paused(array[
          'domain:' || split_part(it ->> 'type', '/', 1), 'definition:' || (it ->> 'type')
        ]) then it - 'lease_ms' - 'worker' else it end
        order by place
      )
      from jsonb_array_elements(starts) with ordinality as asked (it, place)
    );
  end if;
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
      state_notes, state_checked, waiting_for
    )
    select
      asked.id, asked.type, asked.model, asked.key, asked.parent_id, asked.parent_call, asked.batch_id, asked.attributes,
      v_now, greatest(v_now, to_timestamp(asked.start_ms / 1000), v_now + asked.start_in_ms * interval '1 ms'), v_now, asked.state, asked.notes,
      asked.unchecked is not true, asked.first ->> 'name'
    from jsonb_to_recordset(starts) as asked (
      id uuid, type text, model text, key text, parent_id uuid, parent_call text, batch_id uuid, attributes jsonb,
      state jsonb, notes jsonb, start_ms float8, start_in_ms float8, unchecked boolean, first jsonb
    )
    where asked.batch_id is null or asked.batch_id = any (v_batches)
    on conflict do nothing
    returning id, batch_id, type
  ),
  members as (
    -- With the full name as domain: a command of the same id may be in the same batch.
    insert into holdfast.batch_open (batch_id, command_id, domain)
    select batch_id, id, type from created where batch_id is not null
  ),
  tallies as (
    insert into holdfast.batch_tally (batch_id, added)
    select batch_id, count(*) from created where batch_id is not null group by batch_id
  )
  select array_agg(id) into v_created from created;

  -- Those with a lease are executed by their callers, from the first moment; the others become due.
  insert into holdfast.process (id, type, version, status, due_at, lease_epoch, leased_by, leased_at, last_write, created_at, deadline_at)
  select
    asked.id, asked.type, asked.version, coalesce(asked.status, 'PENDING'),
    case
      when asked.lease_ms is not null then v_now + asked.lease_ms * interval '1 ms'
      -- A step-based process has sent its first command; it is due only if its first step waits and has a time limit.
      when asked.model = 'PROCESS_STEP' or asked.looks then greatest(v_now, to_timestamp(asked.start_ms / 1000), v_now + asked.start_in_ms * interval '1 ms')
    end,
    case when asked.lease_ms is not null then 1 else 0 end,
    asked.worker,
    case when asked.lease_ms is not null then v_now end,
    asked.token,
    v_now,
    -- A duration is counted from the start, which may be later.
    coalesce(
      to_timestamp(asked.deadline_ms / 1000),
      greatest(v_now, to_timestamp(asked.start_ms / 1000), v_now + asked.start_in_ms * interval '1 ms') + asked.deadline_in_ms * interval '1 ms'
    )
  from jsonb_to_recordset(starts) as asked (
    id uuid, type text, model text, version int, status text, lease_ms int, worker text, token uuid, start_ms float8,
    start_in_ms float8,
    deadline_ms float8, deadline_in_ms float8, looks boolean
  )
  where asked.id = any (v_created);

  for v_type in
    select distinct asked.type
    from jsonb_to_recordset(starts) as asked (type text, model text, lease_ms int, looks boolean)
    where asked.lease_ms is null and (asked.model = 'PROCESS_STEP' or asked.looks)
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
      floor(extract(epoch from process.deadline_at) * 1000),
      coalesce(process.last_write = asked.token and process.leased_at is not null and process.lease_epoch = 1, false)
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

-- The same for a flush of many callers. An id or key that an open transaction is inserting would make the whole flush wait, so the wait
-- is short, and the caller with that key is retried apart (K-05).
create or replace function holdfast.flush_starts(starts jsonb)
returns json
language sql
set lock_timeout = '100ms'
as $$
  select holdfast.start_processes(starts)
$$;

-- The version that a start through SQL uses: the newest that workers have lately had. Not the newest ever, because a release that was
-- rolled back must not leave processes that no worker claims.
create or replace function holdfast.newest_definition(p_type text)
returns int
language sql
stable
as $$
  select max(version)
  from holdfast.worker_definition
  where model = 'processes' and name = p_type
    and seen_at > holdfast.last_seen('processes', p_type) - interval '1 hour'
$$;

-- Workers call it when they start and every minute, with their definitions that have no limit. Processes that queue for a removed limit
-- become due.
create or replace function holdfast.free_unlimited_processes(types text[])
returns void
language plpgsql
as $$
declare
  v_type text;
begin
  for v_type in
    select noted.type
    from unnest(types) as noted (type)
    left join holdfast.process_setting as setting on setting.type = noted.type
    where setting.concurrency is null
      and exists (select from holdfast.process where process.type = noted.type and queued_at is not null)
    order by noted.type
  loop
    perform holdfast.free_queued_processes(v_type, holdfast.now());
  end loop;
end
$$;

-- A limit was removed: queued processes become due. Due now, not at their old time, because claims have passed that watermark.
create or replace function holdfast.free_queued_processes(p_type text, p_now timestamptz)
returns void
language plpgsql
as $$
begin
  update holdfast.process
  set due_at = p_now, queued_at = null
  where id = any (array(
    select id from holdfast.process
    where type = p_type and queued_at is not null
    order by id
    for no key update skip locked
  ));
  perform holdfast.wake('processes:' || p_type);
end
$$;

-- Stores the state of a process that was started through SQL, parsed by its definition: behind the fence, before any code of the
-- definition sees it. The deadline is that of the definition, unless the caller gave one. Returns the deadline; no row if the lease is
-- lost.
create or replace function holdfast.store_checked_state(
  p_id uuid, p_epoch int, p_state jsonb, p_notes jsonb, p_deadline_ms float8, p_deadline_in_ms float8
)
returns table (deadline_ms float8)
language plpgsql
as $$
declare
  v_deadline timestamptz;
begin
  update holdfast.process
  set deadline_at = coalesce(
    deadline_at, to_timestamp(p_deadline_ms / 1000), holdfast.now() + p_deadline_in_ms * interval '1 ms'
  )
  where id = p_id and lease_epoch = p_epoch
  returning deadline_at into v_deadline;
  if not found then
    return;
  end if;
  update holdfast.process_detail
  set state = p_state, state_notes = p_notes, state_checked = true
  where id = p_id;
  return query select floor(extract(epoch from v_deadline) * 1000)::float8;
end
$$;
