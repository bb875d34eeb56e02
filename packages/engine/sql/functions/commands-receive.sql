-- revision: 5
-- after: commands-send, command-queues, lost-claims
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
  v_types text[] := lane_types;
  v_froms float8[] := lane_froms;
  v_ids bigint[];
  v_reads int[];
  v_messages jsonb[];
  v_headers jsonb[];
  v_count int;
  v_last_lane int;
  v_last_vt timestamptz;
  v_next timestamptz;
  v_foreign bigint[];
  v_strays bigint[];
  v_items json;
begin
  if exists (select from holdfast.pause) then
    select array_agg(type order by place), array_agg(start order by place)
    into v_types, v_froms
    from unnest(lane_types, lane_froms) with ordinality as lane (type, start, place)
    where not holdfast.is_paused(array['domain:' || domain, 'definition:' || domain || '/' || type, 'handler:' || type]);
    if v_types is null then
      return query select '[]'::json, '[]'::json, null::float8, 0;
      return;
    end if;
  end if;
  execute format('select * from %s%I($1, $2, $3, $4, $5, $6, $7, $8)', 'holdfast.', 'take_' || queue)
  into v_ids, v_reads, v_messages, v_headers, v_count, v_last_lane, v_last_vt, v_next
  using domain, v_types, v_froms, v_now, v_now + lease_ms * interval '1 ms', most, spare_leased, ceiling_ms;

  -- A message without a type is found by no lane; it cannot be a command. Looked for when everything is looked at.
  if v_count < most and array_position(lane_froms, null) is not null then
    execute format(
      $query$
      select array_agg(msg_id) from (
        select msg_id from pgmq.%I
        where message ->> 'command_type' is null and vt <= $1
        order by vt
        limit 100
        for update skip locked
      ) as typeless
      $query$, 'q_' || queue
    ) into v_foreign using v_now;
  end if;

  if v_ids is not null then
    select opened.items, opened.strays, v_foreign || opened.malformed
    into v_items, v_strays, v_foreign
    from holdfast.open_messages(domain, worker, v_now, v_ids, v_reads, v_messages, v_headers) as opened;
    if v_items is not null and 1 < any (v_reads) then
      v_items := holdfast.weigh_lost_commands(queue, domain, v_items);
    end if;
    if v_strays is not null then
      perform pgmq.delete(queue, v_strays);
    end if;
  end if;
  if v_foreign is not null then
    perform pgmq.archive(queue, v_foreign);
  end if;
  return query select
    coalesce(v_items, '[]'::json),
    -- Lanes before the last one were looked through to their ends, and those after it not at all.
    (
      select json_agg(json_build_object('type', type, 'mark',
        case
          when v_count < most or place < v_last_lane then v_newest_mark
          else least(v_newest_mark, floor(extract(epoch from v_last_vt) * 1000))
        end
      ))
      from unnest(v_types) with ordinality as lane (type, place)
      where v_count < most or place <= v_last_lane
    ),
    extract(epoch from v_next - v_now)::float8 * 1000,
    coalesce(cardinality(v_foreign), 0);
end
$$;

create or replace function holdfast.uuid_or_null(p_text text)
returns uuid
language plpgsql
immutable
as $$
begin
  return p_text::uuid;
exception when invalid_text_representation then
  return null;
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
    where command_id = holdfast.uuid_or_null(p_command_id)
      and domain = p_domain
      and attempts >= p_read_ct
  )
$$;

-- The commands that messages name, in their order; null for those that name none. Matching a pattern would cost more
-- than all the rest of opening a message, so all are read at once, and one by one only where that fails.
create or replace function holdfast.command_ids_of(messages jsonb[])
returns uuid[]
language plpgsql
immutable
as $$
begin
  return array(select (message ->> 'command_id')::uuid from unnest(messages) as message);
exception when invalid_text_representation then
  return array(select holdfast.uuid_or_null(message ->> 'command_id') from unnest(messages) as message);
end
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
  v_commands uuid[] := holdfast.command_ids_of(messages);
  v_first_attempt jsonb := jsonb_build_object('attempt', 1, 'worker', p_worker);
  v_unknown int;
  v_received uuid[];
  v_attempts int[];
begin
  for v_look in 1 .. 2 loop
    with opened as (
      select
        taken.*,
        command.command_id is not null as known,
        coalesce(command.status = 'PENDING' and command.msg_id = taken.msg_id, false) as current,
        command.type,
        command.correlation_id,
        command.batch_id,
        command.max_attempts,
        command.version,
        command.uncounted,
        extract(epoch from p_now - coalesce(command.run_at, command.created_at))::float8 * 1000 as waited_ms
      from unnest(ids, reads, v_commands, messages, headers) as taken (msg_id, read_ct, command_id, message, header)
      left join holdfast.command on command.command_id = taken.command_id and command.domain || '' = p_domain
    )
    select
      -- A row becomes JSON in half the time of json_build_object.
      json_agg(item) filter (where current),
      array_agg(msg_id) filter (where known and not current),
      array_agg(msg_id) filter (where command_id is null),
      array_agg(command_id) filter (where current),
      array_agg(read_ct - opened.uncounted) filter (where current),
      count(*) filter (where command_id is not null and not known)
    into items, strays, malformed, v_received, v_attempts, v_unknown
    from opened,
    lateral (
      select
        msg_id::text as id, type, read_ct as epoch, command_id as "commandId", correlation_id as "correlationId",
        batch_id as "batchId", max_attempts as "maxAttempts",
        message -> 'data' as data, header -> 'notes' as notes, version, uncounted,
        waited_ms as "waitedMs"
    ) item;
    exit when v_unknown = 0;

    -- Adopted, they are looked at again with the others.
    perform holdfast.adopt_messages(p_domain, p_now, ids, messages, headers);
  end loop;
  insert into holdfast.audit (at, model, event, subject_id, detail)
  select p_now, 'commands', 'RECEIVED', command_id,
    case attempt when 1 then v_first_attempt else jsonb_build_object('attempt', attempt, 'worker', p_worker) end
  from unnest(v_received, v_attempts) as received (command_id, attempt);
end
$$;

-- Received commands with what is known of those whose last claim was not released in order (K-26): they have been read more
-- often than attempts have ended. A claim that was lost beside other work, or interrupted, uses up no attempt.
create or replace function holdfast.weigh_lost_commands(p_queue text, p_domain text, items json)
returns json
language plpgsql
set jit = off
set enable_seqscan = off
as $$
declare
  v_ids text[];
  v_epochs int[];
  v_items json;
begin
  select array_agg(item ->> 'id'), array_agg((item ->> 'epoch')::int)
  into v_ids, v_epochs
  from json_array_elements(items) as item
  join holdfast.command on command.command_id = (item ->> 'commandId')::uuid and command.domain || '' = p_domain
  where (item ->> 'epoch')::int > 1 and command.attempts < (item ->> 'epoch')::int - 1;
  if v_ids is null then
    return items;
  end if;
  with weighed as (
    select it.*, asked.epoch
    from holdfast.weigh_lost_claims('commands:' || p_queue, v_ids, v_epochs, array_fill(null::text, array[cardinality(v_ids)])) as it
    join unnest(v_ids, v_epochs) as asked (id, epoch) on asked.id = it.id
  ),
  claimed as (
    select item, place, weighed.*, (item ->> 'commandId')::uuid as command_id
    from json_array_elements(items) with ordinality as received (item, place)
    left join weighed on weighed.id = item ->> 'id'
  ),
  changed as (
    update holdfast.command
    -- A loss that is the first on record stands for all receives since the last attempt that ended.
    set uncounted = least(claimed.epoch - 1, uncounted + case
          when claimed.counted then 0
          when claimed.known_before then 1
          else claimed.epoch - 1 - attempts
        end)
    from claimed
    where claimed.id is not null and command.command_id = claimed.command_id and command.domain || '' = p_domain
    returning command.command_id, command.uncounted
  )
  select json_agg(
    case when claimed.id is null then item
      else (item::jsonb || jsonb_build_object('uncounted', changed.uncounted, 'lost', holdfast.lost_claim_json(
        claimed.lost_alone, claimed.lost_shared, claimed.counted, claimed.interrupted, claimed.first_to_try
      )))::json
    end
    order by place
  )
  into v_items
  from claimed
  left join changed on changed.command_id = claimed.command_id;
  return v_items;
end
$$;

-- A foreign client's message becomes a command (C-07). Those that have one, or name none, are passed over.
create or replace function holdfast.adopt_messages(
  p_domain text, p_now timestamptz, ids bigint[], messages jsonb[], headers jsonb[]
)
returns void
language plpgsql
as $$
begin
  with taken as (
    select msg_id, message, command_id, header
    from unnest(ids, holdfast.command_ids_of(messages), messages, headers) as taken (msg_id, command_id, message, header)
    where command_id is not null
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
      holdfast.uuid_or_null(message ->> 'correlation_id'),
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

-- Gives back what was received and never begun: visible at once, and its reading does not count. What somebody holds is
-- left to the end of its lease: a worker that stops waits for nobody.
create or replace function holdfast.release_commands(p_queue text, ids bigint[], reads int[])
returns void
language plpgsql
as $$
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
    update pgmq.%1$I set vt = $3, read_ct = read_ct - 1
    where msg_id = any (array(select msg_id from free))
    $query$, 'q_' || p_queue
  ) using ids, reads, holdfast.now();
end
$$;

-- Ends leases now. The handlers have ended and left no record; a message that waits for its next attempt is left alone.
create or replace function holdfast.expire_commands(p_queue text, p_domain text, ids bigint[], reads int[])
returns void
language plpgsql
as $$
begin
  execute format(
    $query$
    with free as (
      select q.msg_id
      from unnest($1, $2) as asked (msg_id, read_ct),
      lateral (
        select msg_id from pgmq.%1$I as q
        where q.msg_id = asked.msg_id
          and q.read_ct = asked.read_ct
          and not %2$sis_between_attempts($4, q.message ->> 'command_id', q.read_ct)
        for update skip locked
      ) q
    )
    update pgmq.%1$I set vt = $3
    where msg_id = any (array(select msg_id from free))
    $query$, 'q_' || p_queue, 'holdfast.'
  ) using ids, reads, holdfast.now(), p_domain;
  perform holdfast.wake('commands:' || p_domain);
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
