-- revision: 5
-- after: commands-receive, processes-respond
--
-- Replies to processes: PGMQ's queue `<domain>__process_replies` as a source of work. `vt` is the due time of a message and
-- (`msg_id`, `read_ct`) its fence, as for commands. Workers of the domain claim and record replies. What must not break: a reply is
-- removed only after its response is recorded, or if it belongs to no process; messages that another transaction has locked are skipped.

-- Claims replies, in the order in which they became visible. A reply that belongs to no process of the domain is removed and listed in
-- `unknown`; a message that is not a reply is archived and counted in `malformed`. A reply to a step-based process is returned with the
-- input of its handlers, so that nothing has to be read again.
-- planner: indexed
create or replace function holdfast.claim_replies(
  p_queue text, p_domain text, p_from float8, p_most int, p_lease_ms int, p_spare_leased boolean, p_ceiling_ms int
)
returns table (
  items json, managed json, known json, mark float8, next_due_ms float8, unknown json, malformed int
)
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_newest_mark float8 := extract(epoch from v_now - interval '200 ms') * 1000;
  v_table text := 'q_' || p_queue;
  v_ids bigint[];
  v_reads int[];
  v_messages jsonb[];
  v_headers jsonb[];
  v_last timestamptz;
  v_next timestamptz;
  v_count int;
  v_items json;
  v_managed json;
  v_known json;
  v_asked jsonb;
  v_gone json;
  v_strays bigint[];
  v_foreign bigint[];
  v_paused bigint[];
begin
  if holdfast.is_paused(array['domain:' || p_domain]) then
    return query select '[]'::json, null::json, null::json, null::float8, null::float8, null::json, 0;
    return;
  end if;
  execute format(
    $query$
    select array_agg(due.msg_id), max(due.vt)
    from (
      select msg_id, vt
      from pgmq.%I
      where vt >= coalesce(to_timestamp($1 / 1000), '-infinity')
        and vt <= $2
        and (read_ct = 0 or not $3)
      order by vt
      limit $4
      for update skip locked
    ) due
    $query$, v_table
  ) into v_ids, v_last using p_from, v_now, p_spare_leased, p_most;
  v_count := coalesce(cardinality(v_ids), 0);

  if v_count > 0 then
    execute format(
      $query$
      with taken as (
        update pgmq.%I
        set vt = $1, read_ct = read_ct + 1
        where msg_id = any ($2)
        returning msg_id, read_ct, message, headers
      )
      select array_agg(msg_id order by msg_id), array_agg(read_ct order by msg_id), array_agg(message order by msg_id),
        array_agg(headers order by msg_id)
      from taken
      $query$, v_table
    ) into v_ids, v_reads, v_messages, v_headers using v_now + p_lease_ms * interval '1 ms', v_ids;
    select opened.items, opened.asked, opened.unknown, opened.strays, opened.malformed, opened.paused
    into v_items, v_asked, v_gone, v_strays, v_foreign, v_paused
    from holdfast.open_replies(p_domain, v_ids, v_reads, v_messages, v_headers) as opened;
    if v_asked is not null then
      v_managed := holdfast.managed_processes(v_asked);
      v_known := holdfast.known_replies(v_asked);
    end if;
    if v_strays is not null then
      perform pgmq.delete(p_queue, v_strays);
    end if;
    if v_foreign is not null then
      perform pgmq.archive(p_queue, v_foreign);
    end if;
    if v_paused is not null then
      -- Claimed again after a second: a resume wakes up the workers of the definition, but this queue belongs to the domain.
      execute format('update pgmq.%I set vt = $1, read_ct = read_ct - 1 where msg_id = any ($2)', v_table)
      using v_now + interval '1 s', v_paused;
    end if;
  end if;
  if v_count < p_most then
    execute format(
      'select vt from pgmq.%I where vt > $1 and vt <= $1 + $2 * interval ''1 ms'' order by vt limit 1', v_table
    ) into v_next using v_now, p_ceiling_ms;
  end if;
  return query select
    coalesce(v_items, '[]'::json),
    v_managed,
    v_known,
    case when v_count < p_most then v_newest_mark else least(v_newest_mark, floor(extract(epoch from v_last) * 1000)) end,
    extract(epoch from v_next - v_now)::float8 * 1000,
    v_gone,
    coalesce(cardinality(v_foreign), 0);
end
$$;

-- The second half of the claim: finds the processes that the replies belong to.
-- planner: looped, no material
create or replace function holdfast.open_replies(
  p_domain text, ids bigint[], reads int[], messages jsonb[], headers jsonb[],
  out items json, out asked jsonb, out unknown json, out strays bigint[], out malformed bigint[], out paused bigint[]
)
language plpgsql
as $$
declare
  v_uuid constant text := '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$';
  v_pauses text[];
begin
  v_pauses := array(select substr(subject, 12) from holdfast.pause where subject like 'definition:%');
  with taken as (
    select
      taken.msg_id,
      taken.read_ct,
      taken.message,
      taken.header,
      case
        when jsonb_typeof(taken.message) = 'object'
          and taken.message ->> 'correlation_id' ~ v_uuid
          and taken.message ->> 'outcome' in ('SUCCESS', 'FAILED', 'CANCELLED')
          and (not taken.message ? 'final' or jsonb_typeof(taken.message -> 'final') = 'boolean')
        then (taken.message ->> 'correlation_id')::uuid
      end as process_id
    from unnest(ids, reads, messages, headers) as taken (msg_id, read_ct, message, header)
  ),
  opened as materialized (
    select
      taken.*,
      process.type,
      detail.model,
      coalesce(detail.model = 'STEP_BASED' and process.type = any (v_pauses), false) as is_paused
    from taken
    left join holdfast.process on process.id = taken.process_id and split_part(process.type, '/', 1) = p_domain
    left join holdfast.process_detail as detail on detail.id = process.id
  )
  select
    json_agg(json_build_object(
      'id', msg_id::text, 'type', p_domain, 'epoch', read_ct, 'processId', process_id, 'processType', type, 'model', model,
      'message', message, 'notes', header -> 'notes'
    ) order by msg_id) filter (where type is not null and not is_paused),
    jsonb_agg(jsonb_build_object(
      'msg_id', msg_id, 'id', process_id, 'command_id', lower(message ->> 'command_id'), 'reply_id', message ->> 'reply_id'
    )) filter (where model = 'STEP_BASED' and not is_paused),
    json_agg(json_build_object('commandId', message ->> 'command_id', 'correlationId', process_id))
      filter (where process_id is not null and type is null),
    array_agg(msg_id) filter (where process_id is not null and type is null),
    array_agg(msg_id) filter (where process_id is null),
    array_agg(msg_id) filter (where is_paused)
  into items, asked, unknown, strays, malformed, paused
  from opened;
end
$$;

-- Records final replies to processes of sequential code as their responses `@command`, and removes the messages. Writes without an `id`
-- are only removed. Returns what respond_processes returns, in order. A message that another transaction has locked stays; when it is
-- read again, its response is found recorded.
-- planner: no jit
create or replace function holdfast.record_replies(p_queue text, writes jsonb)
returns json
language plpgsql
as $$
declare
  v_responses jsonb;
  v_answers jsonb;
begin
  select jsonb_agg(it - 'msg_id' order by place) filter (where it ? 'id')
  into v_responses
  from jsonb_array_elements(writes) with ordinality as asked (it, place);
  if v_responses is not null then
    v_answers := holdfast.respond_processes(v_responses)::jsonb;
  end if;
  -- In the order of the writes again.
  select jsonb_agg(
    case when it ? 'id' then v_answers -> (nth - 1)::int else '["done", 0]' end
    order by place
  )
  into v_answers
  from (
    select it, place, count(*) filter (where it ? 'id') over (order by place) as nth
    from jsonb_array_elements(writes) with ordinality as asked (it, place)
  ) as numbered;
  perform holdfast.remove_replies(p_queue, array(
    select (it ->> 'msg_id')::bigint
    from jsonb_array_elements(writes) with ordinality as asked (it, place)
    where v_answers -> (place - 1)::int ->> 0 in ('done', 'unknown', 'other type')
  ));
  return v_answers;
end
$$;

-- planner: no jit
create or replace function holdfast.remove_replies(p_queue text, ids bigint[])
returns void
language plpgsql
as $$
begin
  execute format(
    $query$
    delete from pgmq.%1$I
    where msg_id = any (array(
      select msg_id from pgmq.%1$I where msg_id = any ($1) order by msg_id for update skip locked
    ))
    $query$, 'q_' || p_queue
  ) using ids;
end
$$;

-- Releases a reply for another worker, or for later; the receive does not count.
create or replace function holdfast.return_reply(p_queue text, p_msg_id bigint, p_read_ct int, p_delay_ms float8)
returns void
language plpgsql
as $$
begin
  execute format(
    'update pgmq.%I set vt = $3, read_ct = read_ct - 1 where msg_id = $1 and read_ct = $2', 'q_' || p_queue
  ) using p_msg_id, p_read_ct, holdfast.now() + p_delay_ms * interval '1 ms';
end
$$;
