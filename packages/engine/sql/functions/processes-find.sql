-- revision: 6
-- after: processes-operate
--
-- Reads processes: lists, counts and single records (P-21). The library calls it for `hf.processes` and for handles. What must not break:
-- each filter uses an index and reads by pages, so that no list becomes slower with the age of the table.

-- The types that exist: one index lookup for each, however many processes they have.
-- planner: no jit, no seqscan, no bitmapscan
create or replace function holdfast.process_types(p_domain text, p_type text)
returns text[]
language plpgsql
stable
as $$
begin
  if p_domain is not null and p_type is not null then
    return array[p_domain || '/' || p_type];
  end if;
  return array(
    with recursive types as (
      (select type from holdfast.process_detail order by type limit 1)
      union all
      select (select next.type from holdfast.process_detail as next where next.type > types.type order by next.type limit 1)
      from types
      where types.type is not null
    )
    select type from types
    where type is not null
      and (p_domain is null or split_part(type, '/', 1) = p_domain)
      and (p_type is null or split_part(type, '/', 2) = p_type)
  );
end
$$;

-- Leased processes. Their due_at is the end of the lease, so rows that are due later than the longest lease of the type are not read:
-- among a million processes that wait for hours, almost all rows that are read are executing.
-- planner: no jit, no seqscan
create or replace function holdfast.leased_processes(types text[])
returns setof uuid
language plpgsql
stable
as $$
begin
  return query
  select process.id
  from unnest(types) as known (type)
  cross join lateral (
    select
      greatest(
        coalesce(max(definition.version), 1),
        (
          select version from holdfast.process
          where process.type = known.type and due_at is not null
          order by version desc
          limit 1
        )
      ) as newest,
      -- Callers that execute their own starts lease for 30 s.
      greatest(coalesce(max(lease_ms), 0), 30000) as lease_ms
    from holdfast.worker_definition as definition
    where definition.model = 'processes' and definition.name = known.type
  ) as bounds
  cross join lateral generate_series(1, bounds.newest) as version
  join holdfast.process on process.type = known.type
    and process.version = version.version
    and process.due_at <= holdfast.now() + bounds.lease_ms * interval '1 ms'
    and process.leased_at is not null;
end
$$;

-- Whether a process matches a filter besides its type and its time. The caller decides whether a leased one is executing or
-- compensating.
create or replace function holdfast.process_fits(
  filter jsonb, key text, batch_id uuid, parent_id uuid, attributes jsonb, status text, leased_at timestamptz
)
returns boolean
language sql
stable
begin atomic
  select (not filter ? 'key' or key = filter ->> 'key')
    and (not filter ? 'batch_id' or batch_id = (filter ->> 'batch_id')::uuid)
    and (not filter ? 'parent_id' or parent_id = (filter ->> 'parent_id')::uuid)
    and (not filter ? 'attributes' or attributes @> (filter -> 'attributes'))
    and (not filter ? 'longer_than_ms'
      or leased_at <= holdfast.now() - (filter ->> 'longer_than_ms')::float8 * interval '1 ms')
    and case filter ->> 'status'
      when 'EXECUTING' then leased_at is not null
      when 'COMPENSATING' then leased_at is not null or status = 'COMPENSATING'
      else not filter ? 'status' or leased_at is null and status = filter ->> 'status'
    end;
end;

-- The newest processes that may match a filter. The filter decides which index is used: ids, key, batch, parent or attributes; otherwise
-- suspended processes by status, leased ones, or the newest, each per type, so that no more rows are read than returned. Only completed
-- processes of a type that hardly ever completes need a longer search.
-- planner: custom, no seqscan, no hashjoin, no mergejoin
create or replace function holdfast.process_candidates(
  filter jsonb, types text[], since timestamptz, until timestamptz, most int
)
returns setof uuid
language plpgsql
stable
as $$
declare
  v_status text := filter ->> 'status';
  v_leased boolean := coalesce(v_status in ('EXECUTING', 'COMPENSATING'), false);
  -- There are few leased processes, and the caller filters them.
  v_most int := case when not v_leased then most end;
  -- The last row of the page before.
  v_after_at timestamptz := coalesce((filter ->> 'after_at')::timestamptz, 'infinity');
  v_after_id uuid := coalesce((filter ->> 'after_id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  if filter ? 'ids' then
    return query select id::uuid from jsonb_array_elements_text(filter -> 'ids') as id;
  elsif filter ? 'key' then
    return query select id from holdfast.process_detail where type = any (types) and key = filter ->> 'key';
  elsif filter ? 'batch_id' then
    return query
    select detail.id
    from holdfast.process_detail as detail
    join holdfast.process on process.id = detail.id
    where detail.batch_id = (filter ->> 'batch_id')::uuid
      and detail.type = any (types)
      and detail.created_at >= since
      and detail.created_at < until
      and (detail.created_at, detail.id) < (v_after_at, v_after_id)
      and (not filter ? 'waiting_for' or detail.waiting_for = filter ->> 'waiting_for')
      and holdfast.process_fits(filter, detail.key, detail.batch_id, detail.parent_id, detail.attributes, process.status, process.leased_at)
    order by detail.created_at desc, detail.id desc
    limit v_most;
  elsif filter ? 'parent_id' then
    return query select id from holdfast.process_detail where parent_id = (filter ->> 'parent_id')::uuid;
  elsif filter ? 'waiting_for' then
    -- Among suspended processes that have not ended, however old the table is.
    return query
    select newest.id
    from unnest(types) as known (type)
    cross join unnest(
      case
        when v_status is null then array['WAITING_FOR_ASYNC', 'WAITING_FOR_RETRY', 'WAITING_FOR_REPLY', 'WAITING_FOR_TSQ', 'COMPENSATING']
        else array[v_status]
      end
    ) as resting (status)
    cross join lateral (
      select process.id
      from holdfast.process
      join holdfast.process_detail as detail on detail.id = process.id
      where process.status = resting.status
        and process.status <> 'COMPLETED'
        and process.type = known.type
        and process.leased_at is null
        and process.created_at >= since
        and process.created_at < until
        and (process.created_at, process.id) < (v_after_at, v_after_id)
        and detail.waiting_for = filter ->> 'waiting_for'
        and (not filter ? 'attributes' or detail.attributes @> (filter -> 'attributes'))
      order by process.created_at desc, process.id desc
      limit most
    ) as newest;
  elsif filter ? 'attributes' or v_status is null or v_status = 'COMPLETED' then
    -- If many processes have these attributes, the newest are found by time, and a few by their attributes: the planner chooses.
    return query
    select newest.id
    from unnest(types) as known (type)
    cross join lateral (
      select detail.id
      from holdfast.process_detail as detail
      join holdfast.process on process.id = detail.id
      where detail.type = known.type
        and detail.created_at >= since
        and detail.created_at < until
        and (detail.created_at, detail.id) < (v_after_at, v_after_id)
        and (not filter ? 'attributes' or detail.attributes @> (filter -> 'attributes'))
        and (v_status is distinct from 'COMPLETED' or process.status = 'COMPLETED')
        and holdfast.process_fits(filter, detail.key, detail.batch_id, detail.parent_id, detail.attributes, process.status, process.leased_at)
      order by detail.created_at desc, detail.id desc
      limit v_most
    ) as newest;
  else
    return query
    select newest.id
    from unnest(types) as known (type)
    cross join lateral (
      select process.id
      from holdfast.process
      where process.status = v_status
        and process.status <> 'COMPLETED'
        and process.type = known.type
        and leased_at is null
        and process.created_at >= since
        and process.created_at < until
        and (process.created_at, process.id) < (v_after_at, v_after_id)
      order by process.created_at desc, process.id desc
      limit most
    ) as newest;
    if v_leased then
      return query select leased.id from holdfast.leased_processes(types) as leased (id);
    end if;
  end if;
end
$$;

-- The processes that match, with their statuses: at least the newest `most` of them, or all if it is null. A cursor has milliseconds,
-- the column microseconds: if the row of the cursor still exists, its own time is used.
-- planner: custom, no seqscan, no hashjoin, no mergejoin
create or replace function holdfast.fitting_processes(filter jsonb, most int)
returns table (id uuid, created_at timestamptz, status text)
language plpgsql
stable
as $$
declare
  v_types text[] := holdfast.process_types(filter ->> 'domain', filter ->> 'type');
  v_after_id uuid := (filter ->> 'after_id')::uuid;
  v_after_at timestamptz := coalesce(
    (select detail.created_at from holdfast.process_detail as detail where detail.id = v_after_id),
    (filter ->> 'after_at')::timestamptz
  );
  v_since timestamptz := coalesce((filter ->> 'since')::timestamptz, '-infinity');
  v_until timestamptz := least((filter ->> 'until')::timestamptz, v_after_at + interval '1 microsecond', 'infinity');
  v_filter jsonb := filter || jsonb_strip_nulls(jsonb_build_object('after_at', v_after_at));
begin
  return query
  select found.id, found.created_at, found.status
  from (
    select
      candidate.id,
      detail.created_at,
      case
        when process.leased_at is null then process.status
        when process.status = 'COMPENSATING' or holdfast.process_is_unwinding(process.id, process.generation)
          then 'COMPENSATING'
        else 'EXECUTING'
      end as status
    from holdfast.process_candidates(v_filter, v_types, v_since, v_until, most) as candidate (id)
    join holdfast.process_detail as detail on detail.id = candidate.id
    join holdfast.process on process.id = candidate.id
    where (detail.type = any (v_types) or filter ? 'ids')
      and detail.created_at >= v_since
      and detail.created_at < v_until
      and (v_after_id is null or (detail.created_at, detail.id) < (v_after_at, v_after_id))
      and (not filter ? 'waiting_for' or process.leased_at is null and detail.waiting_for = filter ->> 'waiting_for')
      and holdfast.process_fits(filter, detail.key, detail.batch_id, detail.parent_id, detail.attributes, process.status, process.leased_at)
  ) as found
  where not filter ? 'status' or found.status = filter ->> 'status';
end
$$;

-- How many processes match.
create or replace function holdfast.count_processes(filter jsonb)
returns bigint
language sql
stable
as $$
  select count(*) from holdfast.fitting_processes(filter, null)
$$;

-- One process, or those that match, newest first.
-- planner: custom, no seqscan, no hashjoin, no mergejoin
create or replace function holdfast.find_processes(filter jsonb)
returns setof jsonb
language plpgsql
stable
as $$
declare
  v_most int := (filter ->> 'limit')::int;
begin
  return query
  -- Without the states, which may be large: they are read only for the rows that are returned.
  with picked as (
    select fitting.id, fitting.created_at, fitting.status
    from holdfast.fitting_processes(filter, v_most) as fitting
    order by fitting.created_at desc, fitting.id desc
    limit v_most
  )
  select jsonb_build_object(
    'id', detail.id, 'type', detail.type, 'version', process.version, 'model', detail.model, 'key', detail.key,
    'status', picked.status,
    'parent_id', detail.parent_id, 'batch_id', detail.batch_id, 'attributes', detail.attributes,
    'created_at', detail.created_at, 'updated_at', detail.updated_at, 'ended_at', detail.ended_at,
    'waiting_for', detail.waiting_for, 'wait_timeout_at', detail.wait_timeout_at, 'next_retry_at', detail.next_retry_at,
    'deadline_at', process.deadline_at, 'due_at', process.due_at, 'queued_at', process.queued_at,
    'leased_by', process.leased_by, 'leased_at', process.leased_at, 'cancel', process.cancel,
    'error_kind', detail.error_kind, 'error_code', detail.error_code, 'error_message', detail.error_message,
    'state', case when detail.projection is null then detail.state else detail.projection end,
    'state_notes', case when detail.projection is null then detail.state_notes else detail.projection_notes end,
    'result', detail.result, 'result_notes', detail.result_notes,
    'paused', holdfast.is_paused(array['domain:' || split_part(detail.type, '/', 1), 'definition:' || detail.type])
  )
  from picked
  join holdfast.process_detail as detail on detail.id = picked.id
  join holdfast.process on process.id = picked.id
  order by picked.created_at desc, picked.id desc;
end
$$;
