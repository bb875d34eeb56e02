-- revision: 9
-- after: commands-send, command-queues, lost-claims
--
-- Receiving commands and keeping them: the claim on PGMQ's table, adoption, heartbeat, giving back.

-- Receives commands (C-07): claims messages of these types, audits RECEIVED, adopts well-formed messages of foreign
-- clients, removes strays of commands that have ended, archives what is no command at all. One round trip for a batch.
--
-- Messages that are no commands do not use up the claim: where some were found, those near them are cleared in one
-- statement, fifty times as many as were found so far, and the claim is repeated for the room that is left. So any amount
-- of them delays the good ones of the same type by little more than it takes to archive them (K-27).
-- planner: indexed, no sort
create or replace function holdfast.receive_commands(
  queue text, domain text, lane_types text[], lane_froms float8[], worker text, most int, lease_ms int,
  spare_leased boolean, ceiling_ms int
)
returns table (items json, marks json, next_due_ms float8, not_ours int)
language plpgsql
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
  v_strays bigint[];
  v_items json;
  v_opened json;
  v_room int := most;
  v_full boolean;
  v_junk bigint[];
  v_not_ours int := 0;
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
  for v_round in 1 .. 5 loop
    execute format('select * from %s%I($1, $2, $3, $4, $5, $6, $7, $8)', 'holdfast.', 'take_' || queue)
    into v_ids, v_reads, v_messages, v_headers, v_count, v_last_lane, v_last_vt, v_next, v_full
    using domain, v_types, v_froms, v_now, v_now + lease_ms * interval '1 ms', v_room, spare_leased, ceiling_ms;
    v_junk := null;
    exit when v_ids is null;
    select opened.items, opened.strays, opened.malformed
    into v_opened, v_strays, v_junk
    from holdfast.open_messages(domain, worker, v_now, v_ids, v_reads, v_messages, v_headers) as opened;
    if v_opened is not null and 1 < any (v_reads) then
      v_opened := holdfast.weigh_lost_commands(queue, domain, v_opened);
    end if;
    if v_strays is not null then
      perform pgmq.delete(queue, v_strays);
    end if;
    if v_opened is not null then
      v_items := case when v_items is null then v_opened else (v_items::jsonb || v_opened::jsonb)::json end;
      v_room := v_room - json_array_length(v_opened);
    end if;
    exit when v_junk is null;

    perform pgmq.archive(queue, v_junk);
    v_not_ours := v_not_ours + cardinality(v_junk);
    v_not_ours := v_not_ours + holdfast.clear_junk(queue, domain, v_types, v_now, least(50 * v_not_ours, 10000));
    exit when v_room = 0;
  end loop;

  -- A message without a type is found by no lane; it cannot be a command. Looked for when everything is looked at.
  if not v_full and array_position(lane_froms, null) is not null then
    v_not_ours := v_not_ours + holdfast.clear_typeless(queue, v_now, 10000);
  end if;
  return query select
    coalesce(v_items, '[]'::json),
    -- Lanes before the last one were looked through to their ends, and those after it not at all.
    (
      select json_agg(json_build_object('type', type, 'mark',
        case
          when not v_full or place < v_last_lane then v_newest_mark
          else least(v_newest_mark, floor(extract(epoch from v_last_vt) * 1000))
        end
      ))
      from unnest(v_types) with ordinality as lane (type, place)
      where not v_full or place <= v_last_lane
    ),
    -- More is due than fits into the bytes of one claim, or lies behind what was cleared: the next claim is at once.
    case when v_room > 0 and (v_full or v_junk is not null) then 0 else extract(epoch from v_next - v_now)::float8 * 1000 end,
    v_not_ours;
end
$$;

-- Archives the messages that cannot be commands among the first so many of these types, in one statement. What only
-- looks like a command is sorted out when it is opened.
-- planner: no jit
create or replace function holdfast.clear_junk(p_queue text, p_domain text, types text[], p_now timestamptz, p_window int)
returns int
language plpgsql
as $$
declare
  v_ids bigint[];
begin
  execute format(
    $query$
    select array_agg(junk.msg_id)
    from unnest($1) as lane (type),
    lateral (
      select near.msg_id
      from (
        select q.msg_id, q.message
        from pgmq.%I as q
        where q.message ->> 'command_type' = lane.type and q.vt <= $2
        order by q.vt
        limit $3
        for update skip locked
      ) as near
      where coalesce(length(near.message ->> 'command_id') < 32, true)
        or near.message ->> 'command_id' !~ '^[{]?[0-9a-fA-F-]+[}]?$'
        or near.message ->> 'domain' <> $4
    ) as junk
    $query$, 'q_' || p_queue
  ) into v_ids using types, p_now, p_window, p_domain;
  if v_ids is null then
    return 0;
  end if;
  perform pgmq.archive(p_queue, v_ids);
  return cardinality(v_ids);
end
$$;

-- planner: no jit
create or replace function holdfast.clear_typeless(p_queue text, p_now timestamptz, p_most int)
returns int
language plpgsql
as $$
declare
  v_ids bigint[];
begin
  execute format(
    $query$
    select array_agg(msg_id) from (
      select msg_id from pgmq.%I
      where message ->> 'command_type' is null and vt <= $1
      order by vt
      limit $2
      for update skip locked
    ) as typeless
    $query$, 'q_' || p_queue
  ) into v_ids using p_now, p_most;
  if v_ids is null then
    return 0;
  end if;
  perform pgmq.archive(p_queue, v_ids);
  return cardinality(v_ids);
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

-- The commands of a domain that messages name, in their order; null for those that name none, or one of another domain.
-- Matching a pattern would cost more than all the rest of opening a message, so all are read at once, and one by one only
-- where that fails.
create or replace function holdfast.command_ids_in(p_domain text, messages jsonb[])
returns uuid[]
language plpgsql
immutable
as $$
begin
  return array(
    select case when coalesce(message ->> 'domain', p_domain) = p_domain then (message ->> 'command_id')::uuid end
    from unnest(messages) as message
  );
exception when invalid_text_representation then
  return array(
    select case when coalesce(message ->> 'domain', p_domain) = p_domain then holdfast.uuid_or_null(message ->> 'command_id') end
    from unnest(messages) as message
  );
end
$$;

-- The second half of receiving: what the claimed messages are. Strays belong to commands that have ended or have another
-- message by now; malformed ones name no command of this domain, or one that cannot be run and is in troubleshooting now.
-- planner: looped, no material
create or replace function holdfast.open_messages(
  p_domain text, p_worker text, p_now timestamptz, ids bigint[], reads int[], messages jsonb[], headers jsonb[],
  out items json, out strays bigint[], out malformed bigint[]
)
language plpgsql
as $$
declare
  v_commands uuid[] := holdfast.command_ids_in(p_domain, messages);
  v_first_attempt jsonb := jsonb_build_object('attempt', 1, 'domain', p_domain, 'worker', p_worker);
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
        v_look = 2 and coalesce(command.error_code = 'INVALID_MESSAGE' and command.updated_at = p_now, false) as refused,
        command.type,
        command.correlation_id,
        command.batch_id,
        command.max_attempts,
        command.version,
        command.uncounted,
        command.inquiry,
        extract(epoch from p_now - coalesce(command.run_at, command.created_at))::float8 * 1000 as waited_ms
      from unnest(ids, reads, v_commands, messages, headers) as taken (msg_id, read_ct, command_id, message, header)
      left join holdfast.command on command.command_id = taken.command_id and command.domain || '' = p_domain
    )
    select
      -- A row becomes JSON in half the time of json_build_object.
      json_agg(item) filter (where current),
      array_agg(msg_id) filter (where known and not current and not refused),
      array_agg(msg_id) filter (where command_id is null or refused),
      array_agg(command_id) filter (where current),
      array_agg(read_ct - opened.uncounted) filter (where current),
      count(*) filter (where command_id is not null and not known)
    into items, strays, malformed, v_received, v_attempts, v_unknown
    from opened,
    lateral (
      select
        msg_id::text as id, type, read_ct as epoch, command_id as "commandId", correlation_id as "correlationId",
        batch_id as "batchId", max_attempts as "maxAttempts",
        message -> 'data' as data, header -> 'notes' as notes, version, uncounted, inquiry,
        waited_ms as "waitedMs"
    ) item;
    exit when v_unknown = 0;

    -- Adopted, they are looked at again with the others.
    perform holdfast.adopt_messages(p_domain, p_now, ids, messages, headers);
  end loop;
  insert into holdfast.audit (at, model, event, subject_id, detail)
  select p_now, 'commands', 'RECEIVED', command_id,
    case attempt when 1 then v_first_attempt else jsonb_build_object('attempt', attempt, 'domain', p_domain, 'worker', p_worker) end
  from unnest(v_received, v_attempts) as received (command_id, attempt);
end
$$;

-- Received commands with what is known of those whose last claim was not released in order (K-26): they have been read more
-- often than attempts have ended. A claim that was lost beside other work, or interrupted, uses up no attempt.
-- planner: no jit, no seqscan
create or replace function holdfast.weigh_lost_commands(p_queue text, p_domain text, items json)
returns json
language plpgsql
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

-- What a foreign client put into a queue is data: this says what keeps its message from being run, null if nothing does
-- (K-27). The text of the data is what is measured. Two checks come first, so that no more than a few hundred megabytes of it
-- are ever made: jsonb takes at most eight times as much as the shortest text, and a number such as 1e100000 takes few bytes
-- in jsonb and many as text; no worker could read it.
create or replace function holdfast.problem_of_message(message jsonb, header jsonb, p_limit int)
returns text
language plpgsql
immutable
as $$
begin
  if length(message ->> 'command_type') > 200 then
    return 'its command_type has more than 200 characters';
  elsif message ->> 'correlation_id' is not null and holdfast.uuid_or_null(message ->> 'correlation_id') is null then
    return 'its correlation_id is not a UUID: ' || left(message ->> 'correlation_id', 100);
  elsif jsonb_typeof(message -> 'reply_to') not in ('string', 'null') then
    return 'its reply_to is not a text';
  elsif jsonb_typeof(header -> 'notes') not in ('object', 'null') then
    return 'its type notes are not an object';
  elsif jsonb_typeof(header -> 'notes') = 'object' and exists (
    select from jsonb_each(header -> 'notes') as note (pointer, kind) where jsonb_typeof(kind) <> 'string'
  ) then
    return 'its type notes are not all texts';
  elsif pg_column_size(message || '{}') > 8.0 * p_limit + 65536 then
    return 'its data takes more than ' || p_limit || ' bytes';
  elsif jsonb_path_exists(message -> 'data', 'lax $.** ? (@.type() == "number") ? (
    @ > 1.8e308 || @ < -1.8e308 || (@ != 0 && @ < 4e-324 && @ > -4e-324)
  )') then
    return 'it holds a number that a double cannot hold';
  elsif coalesce(octet_length((message -> 'data')::text), 0) + coalesce(octet_length((header -> 'notes')::text), 0) > p_limit then
    return 'its data takes more than ' || p_limit || ' bytes';
  end if;
  return null;
exception when program_limit_exceeded or out_of_memory then
  return 'its data takes more than ' || p_limit || ' bytes';
end
$$;

-- A foreign client's message becomes a command (C-07). Those that have one, or name none, are passed over. One that
-- cannot be run becomes a command in troubleshooting, without its data where that is the problem; the message is in the
-- archive. A reply queue that the domain does not allow is not used, and said so.
create or replace function holdfast.adopt_messages(
  p_domain text, p_now timestamptz, ids bigint[], messages jsonb[], headers jsonb[]
)
returns void
language plpgsql
as $$
declare
  v_limit int := holdfast.payload_bytes();
  v_replies jsonb;
begin
  with taken as (
    select distinct on (command_id)
      msg_id, message, command_id, header, message ->> 'reply_to' as reply_to,
      holdfast.problem_of_message(message, header, v_limit) as problem
    from unnest(ids, holdfast.command_ids_in(p_domain, messages), messages, headers) as taken (msg_id, command_id, message, header)
    where command_id is not null
      and not exists (
        select from holdfast.command where command.command_id = taken.command_id and command.domain || '' = p_domain
      )
    order by command_id, msg_id
  ),
  judged as (
    select *, jsonb_typeof(message -> 'reply_to') = 'string' and holdfast.may_reply(p_domain, reply_to) as may_reply from taken
  ),
  adopted as (
    insert into holdfast.command (
      command_id, domain, type, status, msg_id, correlation_id, reply_to, created_at, updated_at, data, notes,
      error_kind, error_code, error_message
    )
    select
      command_id,
      p_domain,
      left(message ->> 'command_type', 200),
      case when problem is null then 'PENDING' else 'IN_TROUBLESHOOTING_QUEUE' end,
      case when problem is null then msg_id end,
      holdfast.uuid_or_null(message ->> 'correlation_id'),
      case when may_reply then reply_to end,
      p_now,
      p_now,
      case when problem is null then message -> 'data' end,
      case when problem is null then nullif(header -> 'notes', 'null') end,
      case when problem is not null then 'PERMANENT' end,
      case when problem is not null then 'INVALID_MESSAGE' end,
      case when problem is not null then 'the message cannot be run: ' || problem end
    from judged
    on conflict (command_id, domain) do nothing
    returning *
  ),
  audited as (
    insert into holdfast.audit (at, model, event, subject_id, detail)
    select p_now, 'commands', 'ADOPTED', command_id, jsonb_build_object('domain', p_domain)
    from adopted
    union all
    select p_now, 'commands', 'REPLY_FAILED', command_id,
      jsonb_build_object('domain', p_domain, 'queue', left(judged.reply_to, 200),
        'problem', 'not a reply queue of the domain ' || p_domain)
    from adopted join judged using (command_id)
    where judged.reply_to is not null and not coalesce(judged.may_reply, false)
    union all
    select p_now, 'commands', 'MOVED_TO_TSQ', command_id,
      jsonb_build_object('domain', p_domain, 'error_code', error_code, 'error_message', error_message)
    from adopted
    where error_code is not null
  ),
  troubled as (
    insert into holdfast.command_trouble (
      command_id, domain, type, since, error_kind, error_code, error_message, fingerprint
    )
    select command_id, p_domain, type, p_now, error_kind, error_code, error_message, 'INVALID_MESSAGE:' || type
    from adopted
    where error_code is not null
  )
  select jsonb_agg(jsonb_build_object('domain', p_domain, 'queue', reply_to, 'command_id', command_id, 'message', jsonb_strip_nulls(jsonb_build_object(
    'command_id', command_id, 'correlation_id', correlation_id, 'outcome', 'FAILED', 'final', false,
    'error_type', error_kind, 'error_code', error_code, 'error_message', error_message
  ))))
  into v_replies
  from adopted
  where error_code is not null and reply_to is not null;
  if v_replies is not null then
    perform holdfast.send_replies(v_replies);
  end if;
end
$$;

-- The queues to which a foreign client may have its replies sent: the one that is named after the domain, and those that
-- an operator has allowed (K-27).
create or replace function holdfast.may_reply(p_domain text, p_queue text)
returns boolean
language sql
stable
as $$
  select exists (
    select from holdfast.command_queue
    where domain = p_domain and p_queue = regexp_replace(queue, '__commands$', '__replies')
  ) or exists (
    select from holdfast.reply_queue where domain = p_domain and queue = p_queue
  )
$$;

-- The heartbeat of running commands.
-- planner: no jit
create or replace function holdfast.extend_commands(p_queue text, ids bigint[], reads int[], lease_ms int)
returns table (extended json, lost json)
language plpgsql
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
