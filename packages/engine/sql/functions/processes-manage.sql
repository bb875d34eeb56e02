-- revision: 6
-- after: commands-send, processes-start, processes-write, processes-replies
--
-- Step-based processes (M-01 to M-05). Their handlers are pure functions that run on the data that is read here, outside any
-- transaction. What must not break: a decision is written behind a fence, and is made again if the process has changed meanwhile. The
-- last row of the history holds the position of the process: the step, its command, and how often every step has been entered, so that
-- reading it costs the same after a thousand steps as after one.

-- The input of the handlers.
-- planner: indexed
create or replace function holdfast.managed_processes(asked jsonb)
returns json
language plpgsql
as $$
declare
  v_ids uuid[] := array(select distinct (it ->> 'id')::uuid from jsonb_array_elements(asked) as it);
begin
  return (
    select json_agg(json_build_object(
      'id', process.id, 'type', process.type, 'version', process.version, 'status', process.status,
      'epoch', process.lease_epoch, 'generation', process.generation, 'cancel', process.cancel,
      'responses', process.responses, 'now', floor(extract(epoch from holdfast.now()) * 1000),
      'deadline', floor(extract(epoch from process.deadline_at) * 1000),
      'seq', coalesce((
        select max(seq) from holdfast.process_history where process_id = process.id and generation = process.generation
      ), 0),
      'state', case when detail.projection_responses is null then detail.state else detail.projection end,
      'stateNotes', case when detail.projection_responses is null then detail.state_notes else detail.projection_notes end,
      'seen', coalesce(detail.projection_responses, 0),
      -- A process that was started through SQL has no record before a worker has begun it.
      'last', json_build_array(coalesce(last.seq, 0), coalesce(last.kind, 'WAIT'), coalesce(last.name, ''), coalesce(last.occurrence, 0),
        coalesce(last.status, 'STARTED'), last.attempt, last.result, last.notes, last.detail,
        floor(extract(epoch from coalesce(last.at, detail.created_at)) * 1000)),
      'ahead', case when process.responses > coalesce(detail.projection_responses, 0) then (
        select json_agg(json_build_array(number, data) order by number)
        from holdfast.process_response
        where process_id = process.id and number > coalesce(detail.projection_responses, 0)
      ) end,
      'unwind', case when last.kind = 'COMPENSATION' then (
        select history.detail
        from holdfast.process_history as history
        where process_id = process.id and history.generation = process.generation and history.kind = 'UNWIND'
        order by seq desc
        limit 1
      ) end
    ))
    from holdfast.process
    join holdfast.process_detail as detail on detail.id = process.id
    left join lateral (
      select *
      from holdfast.process_history as history
      where history.process_id = process.id
        and history.generation = process.generation
        and history.kind not in ('RETRY', 'RESUME', 'UNWIND')
      order by seq desc
      limit 1
    ) as last on true
    where process.id = any (v_ids)
  );
end
$$;

-- For replies that do not belong to the command that the process waits for: [message, [kind, step, occurrence, answered] of the command
-- that it sent, whether the same reply is recorded already].
-- planner: indexed
create or replace function holdfast.known_replies(asked jsonb)
returns json
language plpgsql
as $$
begin
  return (
    select json_agg(json_build_array(
      asked_for.msg_id::text,
      case when last.started_id is distinct from asked_for.command_id then (
        select json_build_array(min(kind), min(name), min(occurrence), bool_or(status in ('COMPLETED', 'FAILED')))
        from holdfast.process_history
        where process_id = asked_for.id and detail ->> 'startedId' = asked_for.command_id
        having count(*) > 0
      ) end,
      asked_for.reply_id is not null and exists (
        select from holdfast.process_response
        where process_id = asked_for.id and response_id = 'reply:' || asked_for.reply_id
      )
    ))
    from jsonb_to_recordset(asked) as asked_for (msg_id bigint, id uuid, command_id text, reply_id text)
    cross join lateral (
      select history.detail ->> 'startedId' as started_id
      from holdfast.process_history as history
      where history.process_id = asked_for.id and history.kind not in ('RETRY', 'RESUME', 'UNWIND')
      order by generation desc, seq desc
      limit 1
    ) as last
  );
end
$$;

-- The commands of a process before a record that have completed, or have failed and may have had their effect (K-19), last one first:
-- those that a compensation undoes.
create or replace function holdfast.completed_commands(p_id uuid, p_generation int, p_before int)
returns json
language sql
stable
as $$
  select json_agg(json_build_array(seq, name, occurrence) order by seq desc)
  from holdfast.process_history
  where process_id = p_id
    and generation = p_generation
    and seq < p_before
    and kind = 'COMMAND'
    and (status = 'COMPLETED' or status = 'FAILED' and detail ->> 'outcome' = 'unknown')
$$;

-- Reads processes and messages again after a write found them changed. Messages that another worker has claimed, or that are gone, are
-- not in `mine`.
create or replace function holdfast.read_managed(p_queue text, asked jsonb)
returns table (managed json, known json, mine json)
language plpgsql
as $$
declare
  v_mine json;
begin
  execute format(
    $query$
    select json_agg(q.msg_id::text)
    from jsonb_to_recordset($1) as asked (msg_id bigint, read_ct int)
    join pgmq.%I as q on q.msg_id = asked.msg_id and q.read_ct = asked.read_ct
    $query$, 'q_' || p_queue
  ) into v_mine using asked;
  return query select holdfast.managed_processes(asked), holdfast.known_replies(asked), coalesce(v_mine, '[]');
end
$$;

-- Writes the decisions of the handlers of many processes: history, status, state, the next command, and the removal of the replies, in
-- one transaction (M-03). The fence is the epoch, which every write raises, together with everything else that the decision depended on:
-- status, cancellation, responses.
-- Returns, in order: 0 done, 2 locked by another transaction, 3 changed meanwhile: decide again.
-- planner: indexed
create or replace function holdfast.apply_managed(p_queue text, writes jsonb)
returns int[]
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_mine uuid[];
  v_messages bigint[];
  v_writes jsonb := writes;
  v_rests jsonb;
begin
  -- In the order of ids, which is the order of the writes.
  select array_agg(locked.id)
  into v_mine
  from jsonb_to_recordset(writes) as asked (id uuid, epoch int, from_status text, cancel text, heard int)
  cross join lateral (
    select process.id
    from holdfast.process
    where process.id = asked.id
      and process.lease_epoch = asked.epoch
      and process.status = asked.from_status
      and process.cancel is not distinct from asked.cancel
      and process.responses = asked.heard
    for no key update skip locked
  ) as locked;
  execute format(
    $query$
    select coalesce(array_agg(free.msg_id), '{}')
    from jsonb_array_elements($1) as it,
    lateral jsonb_to_recordset(it -> 'messages') as asked (msg_id bigint, read_ct int),
    lateral (
      select msg_id from pgmq.%I as q
      where q.msg_id = asked.msg_id and q.read_ct = asked.read_ct
      for update skip locked
    ) free
    where (it ->> 'id')::uuid = any ($2)
    $query$, 'q_' || p_queue
  ) into v_messages using writes, v_mine;
  if coalesce(cardinality(v_mine), 0) < jsonb_array_length(writes)
    or cardinality(v_messages) < (select sum(jsonb_array_length(it -> 'messages')) from jsonb_array_elements(writes) as it)
  then
    select coalesce(jsonb_agg(it order by place), '[]')
    into v_writes
    from jsonb_array_elements(writes) with ordinality as asked (it, place)
    where (it ->> 'id')::uuid = any (v_mine)
      and not exists (
        select from jsonb_array_elements(it -> 'messages') as message
        where not (message ->> 'msg_id')::bigint = any (v_messages)
      );
    v_mine := array(select (it ->> 'id')::uuid from jsonb_array_elements(v_writes) as it);
    v_messages := array(
      select (message ->> 'msg_id')::bigint
      from jsonb_array_elements(v_writes) as it, jsonb_array_elements(it -> 'messages') as message
    );
  end if;

  if cardinality(v_mine) > 0 then
    insert into holdfast.process_history (
      process_id, generation, seq, epoch, at, kind, name, occurrence, status, attempt, result, notes, detail
    )
    select
      asked.id, asked.generation, event.seq, asked.epoch + 1, v_now, event.kind, event.name, event.occurrence, event.status,
      event.attempt, event.result, event.notes, event.detail
    from jsonb_to_recordset(v_writes) as asked (id uuid, epoch int, generation int, events jsonb)
    cross join lateral jsonb_to_recordset(asked.events) as event (
      seq int, kind text, name text, occurrence int, status text, attempt int, result jsonb, notes jsonb, detail jsonb
    );
    insert into holdfast.process_response (process_id, number, name, response_id, at, data)
    select asked.id, kept.number, '@reply', kept.response_id, v_now, kept.data
    from jsonb_to_recordset(v_writes) as asked (id uuid, keep jsonb)
    cross join lateral jsonb_to_recordset(asked.keep) as kept (number int, response_id text, data jsonb);
    update holdfast.process
    set responses = responses + jsonb_array_length(asked.keep)
    from jsonb_to_recordset(v_writes) as asked (id uuid, epoch int, keep jsonb)
    where process.id = asked.id and jsonb_array_length(asked.keep) > 0 and asked.epoch = asked.epoch + 0;

    if v_writes @? '$[*].events[*] ? (@.seq == 1)' then
      -- Through SQL it was started like any process.
      update holdfast.process_detail
      set model = 'STEP_BASED'
      from jsonb_to_recordset(v_writes) as asked (id uuid, events jsonb)
      where process_detail.id = asked.id and model <> 'STEP_BASED' and asked.events @? '$[*] ? (@.seq == 1)';
    end if;
    select jsonb_agg(it) into v_rests from jsonb_array_elements(v_writes) as it where it ? 'to_status';
    if v_rests is not null then
      perform holdfast.rest_processes(v_rests, v_now);
      delete from holdfast.process_trouble
      where id = any (array(
        select (it ->> 'id')::uuid
        from jsonb_array_elements(v_rests) as it
        where it ->> 'from_status' = 'WAITING_FOR_TSQ' and it ->> 'to_status' <> 'WAITING_FOR_TSQ'
      ));
    end if;
    if v_writes @> '[{"late": true}]' then
      perform holdfast.patch_ended(v_writes, v_now);
    end if;
    if cardinality(v_messages) > 0 then
      execute format('delete from pgmq.%I where msg_id = any ($1)', 'q_' || p_queue) using v_messages;
    end if;
    perform holdfast.send_for_processes(v_writes);
  end if;

  if cardinality(v_mine) = jsonb_array_length(writes) then
    return array_fill(0, array[jsonb_array_length(writes)]);
  end if;
  return array(
    select case
      when asked.id = any (v_mine) or process.last_write = asked.token then 0
      when process.id is not null
        and process.lease_epoch = asked.epoch
        and process.status = asked.from_status
        and process.cancel is not distinct from asked.cancel
        and process.responses = asked.heard
        and asked.id <> all (coalesce(v_mine, '{}'))
        and not holdfast.replies_are_lost(p_queue, asked.messages) then 2
      else 3
    end
    from rows from (
      jsonb_to_recordset(writes) as (
        id uuid, epoch int, token uuid, from_status text, cancel text, heard int, messages jsonb
      )
    ) with ordinality as asked (id, epoch, token, from_status, cancel, heard, messages, place)
    left join holdfast.process on process.id = asked.id
    order by asked.place
  );
end
$$;

-- Whether another worker has claimed one of these messages, or one is gone.
create or replace function holdfast.replies_are_lost(p_queue text, p_messages jsonb)
returns boolean
language plpgsql
as $$
declare
  v_lost boolean;
begin
  execute format(
    $query$
    select exists (
      select
      from jsonb_to_recordset($1) as asked (msg_id bigint, read_ct int)
      left join pgmq.%I as q on q.msg_id = asked.msg_id and q.read_ct = asked.read_ct
      where q.msg_id is null
    )
    $query$, 'q_' || p_queue
  ) into v_lost using p_messages;
  return v_lost;
end
$$;

-- A reply to a process that has ended: it changes the state that readers see, is on record, and has no other effect (M-03).
create or replace function holdfast.patch_ended(writes jsonb, v_now timestamptz)
returns void
language plpgsql
as $$
begin
  update holdfast.process
  set lease_epoch = lease_epoch + 1, last_write = asked.token
  from jsonb_to_recordset(writes) as asked (id uuid, token uuid, late boolean)
  where process.id = asked.id and asked.late;
  update holdfast.process_detail
  set projection = asked.projection, projection_notes = asked.projection_notes, projection_responses = asked.seen, updated_at = v_now
  from jsonb_to_recordset(writes) as asked (
    id uuid, late boolean, has_projection boolean, projection jsonb, projection_notes jsonb, seen int
  )
  where process_detail.id = asked.id and asked.late and asked.has_projection;
  insert into holdfast.audit (at, model, event, subject_id, detail)
  select v_now, 'processes', 'LATE_ASYNC_RESPONSE', asked.id, asked.late_detail
  from jsonb_to_recordset(writes) as asked (id uuid, late boolean, late_detail jsonb)
  where asked.late;
end
$$;

-- Sends the commands of processes in the same transaction. If one cannot be sent, the transaction is rolled back; splitting the batch
-- finds its process (K-05), which then gets the failure.
create or replace function holdfast.send_for_processes(writes jsonb)
returns void
language plpgsql
as $$
declare
  v_request jsonb;
  v_refused record;
begin
  select jsonb_agg(jsonb_build_object('queue', part.queue, 'domain', part.domain, 'commands', part.commands))
  into v_request
  from (
    select it -> 'send' ->> 'queue' as queue, it -> 'send' ->> 'domain' as domain, jsonb_agg(it -> 'send' -> 'command') as commands
    from jsonb_array_elements(writes) as it
    where it ? 'send'
    group by 1, 2
  ) as part;
  if v_request is null then
    return;
  end if;
  select * into v_refused from holdfast.send_commands(v_request) limit 1;
  if found then
    raise exception 'command % of domain %: %', v_refused.id, v_refused.in_domain, v_refused.outcome
      using errcode = 'HF001', detail = v_refused.outcome;
  end if;
end
$$;

-- Starts step-based processes: the process, its first command and its history, in one transaction that only inserts (M-02, K-15).
-- Returns what start_processes returns.
-- planner: looped
create or replace function holdfast.start_managed(starts jsonb)
returns json
language plpgsql
as $$
declare
  v_answers json := holdfast.start_processes(starts);
  v_created uuid[] := array(
    select (answer ->> 0)::uuid from json_array_elements(v_answers) as answer where (answer ->> 1)::boolean
  );
  v_new uuid[];
begin
  -- The first event tells a process that was created now from one that an earlier flush had created, whose response was lost.
  with recorded as (
    insert into holdfast.process_history (process_id, generation, seq, epoch, at, kind, name, occurrence, status, detail)
    select asked.id, 1, 1, 0, holdfast.now(), asked.first ->> 'kind', asked.first ->> 'name', 1, 'STARTED', asked.first -> 'detail'
    from jsonb_to_recordset(starts) as asked (id uuid, first jsonb)
    where asked.id = any (v_created)
    on conflict do nothing
    returning process_id
  )
  select array_agg(process_id) into v_new from recorded;
  perform holdfast.send_for_processes((
    select coalesce(jsonb_agg(it), '[]') from jsonb_array_elements(starts) as it where (it ->> 'id')::uuid = any (v_new)
  ));
  return v_answers;
end
$$;

-- The same for a flush of many callers, which must not wait for another open transaction (K-05).
create or replace function holdfast.flush_managed_starts(starts jsonb)
returns json
language sql
set lock_timeout = '100ms'
as $$
  select holdfast.start_managed(starts)
$$;
