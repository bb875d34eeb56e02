-- revision: 11
-- after: commands-send, command-queues, lost-claims, commands-foreign
--
-- Receives commands: the claim of a domain's queue, called by each worker that has handlers for it. A message is returned with the
-- command it belongs to, oldest first, and a claim is limited in bytes (K-23). What must not break: the claim never waits for a row that
-- another transaction has locked, and it never removes a message, except a stray (its command has ended or has a newer message) or
-- one that is not a command. `commands-foreign.sql` handles messages of other clients, `commands-lease.sql` what follows the claim.

-- Receives commands (C-07): claims messages of these types, audits RECEIVED, adopts well-formed messages of foreign clients, removes
-- strays of commands that have ended, and archives messages that are not commands. One round trip for a batch.
--
-- Messages that are not commands do not use up the claim. If some were found, those near them are archived in one statement, fifty
-- times as many as were found so far, and the claim is repeated for the room that is left. So any number of them delays good messages of
-- the same type by little more than the time to archive them (K-27).
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

  -- A message without a type is in no lane and cannot be a command. A full scan archives these.
  if not v_full and array_position(lane_froms, null) is not null then
    v_not_ours := v_not_ours + holdfast.clear_typeless(queue, v_now, 10000);
  end if;
  return query select
    coalesce(v_items, '[]'::json),
    -- Lanes before the last one were scanned to their ends, and those after it not at all.
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
    -- More messages are due than fit into the bytes of one claim, or are behind what was archived: claim again at once.
    case when v_room > 0 and (v_full or v_junk is not null) then 0 else extract(epoch from v_next - v_now)::float8 * 1000 end,
    v_not_ours;
end
$$;

-- Whether a command waits for its next attempt, and is not leased by a worker. Claims ask this only in the grace time after an outage
-- (K-03): a message that is hidden until its retry is not an expired lease.
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

-- The second half of receiving: finds the commands of the claimed messages. Strays belong to commands that have ended or have another
-- message. Malformed messages name no command of this domain, or one that cannot be executed and is in troubleshooting now.
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
      -- Aggregating rows takes half the time of json_build_object.
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

    -- Once adopted, they are opened again with the others.
    perform holdfast.adopt_messages(p_domain, p_now, ids, messages, headers);
  end loop;
  insert into holdfast.audit (at, model, event, subject_id, detail)
  select p_now, 'commands', 'RECEIVED', command_id,
    case attempt when 1 then v_first_attempt else jsonb_build_object('attempt', attempt, 'domain', p_domain, 'worker', p_worker) end
  from unnest(v_received, v_attempts) as received (command_id, attempt);
end
$$;

-- Received commands, with the loss record of those whose last claim was not released in order (K-26): they were read more often than
-- attempts have ended. A claim that was lost beside other work, or interrupted, uses up no attempt.
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
    -- The first recorded loss stands for all receives since the last attempt that ended.
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
