-- revision: 1
-- after: commands-send
--
-- Receiving commands and keeping them: the claim on PGMQ's table, adoption, heartbeat, giving back.

-- Receives commands (C-07): claims messages of these types, audits RECEIVED, adopts well-formed messages of foreign
-- clients, removes strays of commands that have ended, archives what is no command at all. One round trip for a batch.
create or replace function holdfast.receive_commands(
  queue text, domain text, lane_types text[], lane_froms float8[], worker text, most int, lease_ms int,
  spare_leased boolean, ceiling_ms int
)
returns table (items json, marks json, next_due_ms float8, not_ours int)
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
set enable_sort = off
as $$
declare
  v_now timestamptz := holdfast.now();
  v_newest_mark float8 := extract(epoch from v_now - interval '200 ms') * 1000;
  v_table text := 'q_' || queue;
  v_type text;
  v_ids bigint[] := '{}';
  v_lane_ids bigint[];
  v_last timestamptz;
  v_left int := most;
  v_marks json[] := '{}';
  v_next timestamptz;
  v_lane_next timestamptz;
  v_reads int[];
  v_messages jsonb[];
  v_headers jsonb[];
  v_foreign bigint[];
  v_strays bigint[];
  v_items json;
begin
  for v_lane in 1 .. cardinality(lane_types) loop
    exit when v_left <= 0;
    v_type := lane_types[v_lane];
    continue when holdfast.is_paused(array['domain:' || domain, 'definition:' || domain || '/' || v_type, 'handler:' || v_type]);
    execute format(
      $query$
      select array_agg(due.msg_id), max(due.vt)
      from (
        select msg_id, vt
        from pgmq.%I
        where message ->> 'command_type' = $1
          and vt >= coalesce(to_timestamp($2 / 1000), '-infinity')
          and vt <= $3
          and (not $4 or read_ct = 0 or %2$s.is_between_attempts($6, message ->> 'command_id', read_ct))
        order by vt
        limit $5
        for update skip locked
      ) due
      $query$, v_table, holdfast.own_schema()
    ) into v_lane_ids, v_last using v_type, lane_froms[v_lane], v_now, spare_leased, v_left, domain;
    v_left := v_left - coalesce(cardinality(v_lane_ids), 0);
    if v_lane_ids is not null then
      v_ids := v_ids || v_lane_ids;
    end if;
    v_marks := v_marks || json_build_object(
      'type', v_type,
      'mark', case when v_left > 0 then v_newest_mark else least(v_newest_mark, floor(extract(epoch from v_last) * 1000)) end
    );
    if v_left > 0 then
      execute format(
        $query$
        select vt from pgmq.%I
        where message ->> 'command_type' = $1 and vt > $2 and vt <= $2 + $3 * interval '1 ms'
        order by vt
        limit 1
        $query$, v_table
      ) into v_lane_next using v_type, v_now, ceiling_ms;
      v_next := least(v_next, v_lane_next);
    end if;
  end loop;

  -- A message without a type is found by no lane; it cannot be a command.
  if v_left > 0 then
    execute format(
      $query$
      select array_agg(msg_id) from (
        select msg_id from pgmq.%I
        where message ->> 'command_type' is null and vt <= $1
        order by vt
        limit 100
        for update skip locked
      ) as typeless
      $query$, v_table
    ) into v_foreign using v_now;
  end if;

  if cardinality(v_ids) > 0 then
    execute format(
      $query$
      with taken as (
        update pgmq.%I
        set vt = $1, read_ct = read_ct + 1
        where msg_id = any ($2)
        returning msg_id, read_ct, message, headers
      )
      select array_agg(msg_id), array_agg(read_ct), array_agg(message), array_agg(headers) from taken
      $query$, v_table
    ) into v_ids, v_reads, v_messages, v_headers using v_now + lease_ms * interval '1 ms', v_ids;
    select opened.items, opened.strays, v_foreign || opened.malformed
    into v_items, v_strays, v_foreign
    from holdfast.open_messages(domain, worker, v_now, v_ids, v_reads, v_messages, v_headers) as opened;
    if v_strays is not null then
      perform pgmq.delete(queue, v_strays);
    end if;
  end if;
  if v_foreign is not null then
    perform pgmq.archive(queue, v_foreign);
  end if;
  return query select
    coalesce(v_items, '[]'::json),
    array_to_json(v_marks),
    extract(epoch from v_next - v_now)::float8 * 1000,
    coalesce(cardinality(v_foreign), 0);
end
$$;

-- Waits a command for its next attempt, rather than for a worker that may still be at one? Asked only in the grace after
-- an outage (K-03): a message that was hidden for a retry is nobody's lease.
create or replace function holdfast.is_between_attempts(p_domain text, p_command_id text, p_read_ct int)
returns boolean
language sql
stable
as $$
  select exists (
    select from holdfast.command
    where command_id = case when p_command_id ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' then p_command_id::uuid end
      and domain = p_domain
      and attempts >= p_read_ct
  )
$$;

-- The second half of receiving: what the claimed messages are. Strays belong to commands that have ended or have another
-- message by now; malformed ones name no command.
create or replace function holdfast.open_messages(
  p_domain text, p_worker text, p_now timestamptz, ids bigint[], reads int[], messages jsonb[], headers jsonb[],
  out items json, out strays bigint[], out malformed bigint[]
)
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
as $$
declare
  v_uuid constant text := '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$';
  v_unknown int;
  v_received uuid[];
  v_attempts int[];
begin
  for v_look in 1 .. 2 loop
    with taken as (
      select
        msg_id,
        read_ct,
        message,
        header,
        case when message ->> 'command_id' ~ v_uuid then (message ->> 'command_id')::uuid end as command_id
      from unnest(ids, reads, messages, headers) as taken (msg_id, read_ct, message, header)
    ),
    opened as materialized (
      select
        taken.*,
        command.command_id is not null as known,
        command.status = 'PENDING' and command.msg_id = taken.msg_id as current,
        command.type,
        command.correlation_id,
        command.batch_id,
        command.max_attempts,
        command.version
      from taken
      left join holdfast.command on command.command_id = taken.command_id and command.domain || '' = p_domain
    )
    select
      json_agg(json_build_object(
        'id', msg_id::text, 'type', type, 'epoch', read_ct, 'commandId', command_id, 'correlationId', correlation_id,
        'batchId', batch_id, 'maxAttempts', max_attempts,
        'data', message -> 'data', 'notes', header -> 'notes', 'version', version
      )) filter (where current),
      array_agg(msg_id) filter (where known and not current),
      array_agg(msg_id) filter (where command_id is null),
      array_agg(command_id) filter (where current),
      array_agg(read_ct) filter (where current),
      count(*) filter (where command_id is not null and not known)
    into items, strays, malformed, v_received, v_attempts, v_unknown
    from opened;
    exit when v_unknown = 0;

    -- Adopted, they are looked at again with the others.
    perform holdfast.adopt_messages(p_domain, p_now, ids, messages, headers);
  end loop;
  insert into holdfast.audit (at, model, event, subject_id, detail)
  select p_now, 'commands', 'RECEIVED', command_id, jsonb_build_object('attempt', attempt, 'worker', p_worker)
  from unnest(v_received, v_attempts) as received (command_id, attempt);
end
$$;

-- A foreign client's message becomes a command (C-07). Those that have one, or name none, are passed over.
create or replace function holdfast.adopt_messages(
  p_domain text, p_now timestamptz, ids bigint[], messages jsonb[], headers jsonb[]
)
returns void
language plpgsql
as $$
declare
  v_uuid constant text := '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$';
begin
  with taken as (
    select msg_id, message, (message ->> 'command_id')::uuid as command_id, header
    from unnest(ids, messages, headers) as taken (msg_id, message, header)
    where message ->> 'command_id' ~ v_uuid
  ),
  adopted as (
    insert into holdfast.command (
      command_id, domain, type, msg_id, correlation_id, reply_to, created_at, updated_at, data, notes
    )
    select distinct on (command_id)
      command_id,
      p_domain,
      message ->> 'command_type',
      msg_id,
      case when message ->> 'correlation_id' ~ v_uuid then (message ->> 'correlation_id')::uuid end,
      message ->> 'reply_to',
      p_now,
      p_now,
      message -> 'data',
      header -> 'notes'
    from taken
    order by command_id, msg_id
    on conflict (command_id, domain) do nothing
    returning command_id
  )
  insert into holdfast.audit (at, model, event, subject_id, detail)
  select p_now, 'commands', 'ADOPTED', command_id, jsonb_build_object('domain', p_domain)
  from adopted;
end
$$;

-- The heartbeat of running commands.
create or replace function holdfast.extend_commands(p_queue text, ids bigint[], reads int[], lease_ms int)
returns table (extended json, lost json)
language plpgsql
set jit = off
as $$
declare
  v_free bigint[];
begin
  execute format(
    $query$
    with free as (
      select q.msg_id
      from unnest($1, $2) as asked (msg_id, read_ct),
      lateral (
        select msg_id from pgmq.%1$I as q
        where q.msg_id = asked.msg_id and q.read_ct = asked.read_ct
        for update skip locked
      ) q
    )
    update pgmq.%1$I set vt = greatest(vt, $3)
    where msg_id = any (array(select msg_id from free))
    $query$, 'q_' || p_queue
  ) using ids, reads, holdfast.now() + lease_ms * interval '1 ms';
  return query execute format(
    $query$
    select
      coalesce(json_agg(asked.msg_id::text) filter (where q.vt >= $3), '[]'),
      coalesce(json_agg(asked.msg_id::text) filter (where q.msg_id is null), '[]')
    from unnest($1, $2) as asked (msg_id, read_ct)
    left join pgmq.%I as q on q.msg_id = asked.msg_id and q.read_ct = asked.read_ct
    $query$, 'q_' || p_queue
  ) using ids, reads, holdfast.now() + lease_ms * interval '1 ms';
end
$$;

-- Gives back what was received and never begun: visible at once, and its reading does not count.
create or replace function holdfast.release_commands(p_queue text, ids bigint[], reads int[])
returns void
language plpgsql
as $$
begin
  execute format(
    $query$
    update pgmq.%I as q
    set vt = $3, read_ct = q.read_ct - 1
    from unnest($1, $2) as asked (msg_id, read_ct)
    where q.msg_id = asked.msg_id and q.read_ct = asked.read_ct
    $query$, 'q_' || p_queue
  ) using ids, reads, holdfast.now();
end
$$;

-- Locks one message for a handler's own transaction; false when the lease is lost (C-06).
create or replace function holdfast.hold_command(p_queue text, p_msg_id bigint, p_read_ct int)
returns boolean
language plpgsql
as $$
declare
  v_held boolean;
begin
  execute format('select true from pgmq.%I where msg_id = $1 and read_ct = $2 for update', 'q_' || p_queue)
  into v_held using p_msg_id, p_read_ct;
  return coalesce(v_held, false);
end
$$;

create or replace function holdfast.oldest_command_seconds(p_queue text, types text[])
returns float8
language plpgsql
as $$
declare
  v_oldest timestamptz;
begin
  execute format(
    $query$
    select min(oldest.vt)
    from unnest($1) as type,
    lateral (
      select vt from pgmq.%I where message ->> 'command_type' = type.type and vt <= $2 order by vt limit 1
    ) oldest
    $query$, 'q_' || p_queue
  ) into v_oldest using types, holdfast.now();
  return extract(epoch from holdfast.now() - v_oldest);
end
$$;
