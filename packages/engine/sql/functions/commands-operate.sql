-- revision: 13
-- after: commands-finish, presence
--
-- Operations on commands by operators, and by the sweep for types without a handler. Handles and `hf.trouble` call them. What must not
-- break: every operation is audited with actor and reason in the same transaction, and a command that has ended never changes.

-- Operations on commands in troubleshooting (C-13): retry (attempts from 0, optionally with other data), cancel, or complete with a
-- result. Each changes the command, its message and its batch, sends the final reply and is audited with actor and reason. Returns one
-- row per id, in their order: 'done', 'not in troubleshooting', 'unknown', or 'outcome unknown'.
--
-- 'outcome unknown' is for a plain RETRY of a call that must not be repeated, whose outcome is unknown and whose handler cannot inquire
-- (K-20): the operator has to say NOT_DONE. If the handler can inquire, the command keeps its mark, and the worker inquires before it
-- calls the handler.
-- planner: no jit
create or replace function holdfast.operate_commands(
  p_action text, p_domain text, ids uuid[], p_actor text, p_reason text, p_data jsonb, p_notes jsonb, p_version int
)
returns table (command_id uuid, outcome text)
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_queue text := (select queue from holdfast.command_queue where domain = p_domain);
  v_action text := case p_action when 'NOT_DONE' then 'RETRY' else p_action end;
  v_taken uuid[];
  v_replies jsonb;
begin
  if v_action = 'RETRY' and v_queue is not null and not holdfast.queue_exists(v_queue) then
    return query select asked.id, 'queue gone' from unnest(ids) as asked (id);
    return;
  end if;
  v_taken := array(
    select trouble.command_id from holdfast.command_trouble as trouble
    where trouble.domain = p_domain
      and trouble.command_id = any (ids)
      and not (p_action = 'RETRY' and exists (
        select from holdfast.command
        where command.command_id = trouble.command_id and command.domain = p_domain and inquiry = 'impossible'
      ))
    order by trouble.command_id
    for update
  );
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, detail, before, after)
  select
    v_now, 'commands', 'OPERATOR_' || v_action, command.command_id, p_actor, p_reason, jsonb_build_object('domain', p_domain),
    jsonb_build_object('status', status, 'attempts', attempts, 'error_code', error_code)
      || case when p_data is not null and v_action = 'RETRY' then jsonb_build_object('data', data) else '{}' end,
    case v_action
      when 'RETRY' then jsonb_build_object('status', 'PENDING')
        || case p_action when 'NOT_DONE' then '{"notDone": true}' else '{}' end::jsonb
        || case when p_data is not null then jsonb_build_object('data', p_data) else '{}' end
      when 'CANCEL' then jsonb_build_object('status', 'CANCELLED')
      else jsonb_build_object('status', 'COMPLETED', 'result', p_data)
    end
  from holdfast.command
  where command.domain = p_domain and command.command_id = any (v_taken);
  delete from holdfast.command_trouble as trouble
  where trouble.domain = p_domain and trouble.command_id = any (v_taken);

  if cardinality(v_taken) = 0 then
    null;
  elsif v_action = 'RETRY' then
    execute format(
      $query$
      with again as (
        update %2$s.command
        set status = 'PENDING', attempts = 0, uncounted = 0, updated_at = $3, last_write = null,
            msg_id = nextval(pg_get_serial_sequence('pgmq.%1$I', 'msg_id')),
            data = coalesce($4, data), notes = case when $4 is null then notes else nullif($5, 'null') end,
            version = case when $4 is null then version else $6 end,
            error_kind = null, error_code = null, error_message = null,
            inquiry = case when $7 then null else inquiry end, effect = case when $7 then null else effect end
        where domain = $1 and command_id = any ($2)
        returning *
      )
      insert into pgmq.%1$I (msg_id, vt, message, headers)
      overriding system value
      select
        msg_id, $3,
        jsonb_build_object(
          'domain', domain, 'command_type', type, 'command_id', command_id, 'correlation_id', correlation_id,
          'data', data, 'reply_to', reply_to
        ),
        case when notes is not null then jsonb_build_object('notes', notes) end
      from again
      $query$, 'q_' || v_queue, holdfast.own_schema()
    ) using p_domain, v_taken, v_now, p_data, p_notes, p_version, p_action = 'NOT_DONE';
    perform holdfast.wake('commands:' || p_domain);
  else
    with ended as (
      update holdfast.command
      set status = case p_action when 'CANCEL' then 'CANCELLED' else 'COMPLETED' end,
          updated_at = v_now,
          last_write = null,
          inquiry = null,
          effect = case p_action when 'CANCEL' then effect end,
          result = case p_action when 'CANCEL' then null else p_data end,
          result_notes = case p_action when 'CANCEL' then null else nullif(p_notes, 'null') end,
          error_kind = case p_action when 'CANCEL' then error_kind end,
          error_code = case p_action when 'CANCEL' then error_code end,
          error_message = case p_action when 'CANCEL' then error_message end
      where command.domain = p_domain and command.command_id = any (v_taken)
      returning command.*
    )
    select
      jsonb_agg(jsonb_build_object('domain', p_domain, 'queue', reply_to, 'command_id', ended.command_id, 'notes', result_notes,
        'message', jsonb_strip_nulls(jsonb_build_object(
          'command_id', ended.command_id, 'correlation_id', correlation_id, 'final', true,
          'outcome', case p_action when 'CANCEL' then 'CANCELLED' else 'SUCCESS' end,
          -- It may have had its effect, so the receiver of the reply may have to undo it (K-19).
          'effect', effect
        )) || case p_action when 'CANCEL' then '{}' else jsonb_build_object('result', result) end
      )) filter (where reply_to is not null)
    into v_replies
    from ended;
    perform holdfast.leave_batches(p_domain, v_taken, v_now);
    if v_replies is not null then
      perform holdfast.send_replies(v_replies);
    end if;
  end if;

  return query
  select asked.id, case
      when asked.id = any (v_taken) then 'done'
      when exists (
        select from holdfast.command
        where command.command_id = asked.id and command.domain = p_domain and command.status = 'IN_TROUBLESHOOTING_QUEUE'
      ) then 'outcome unknown'
      when exists (select from holdfast.command where command.command_id = asked.id and command.domain = p_domain)
        then 'not in troubleshooting'
      else 'unknown'
    end
  from unnest(ids) with ordinality as asked (id, place)
  order by place;
end
$$;

-- Removes commands that an operator ended from their batches.
create or replace function holdfast.leave_batches(p_domain text, ids uuid[], p_now timestamptz)
returns void
language plpgsql
as $$
begin
  with ended as (
    select command.command_id, command.batch_id, command.status
    from unnest(ids) as asked (id)
    -- This lookup must use the primary key: see `leave_batches` in commands-finish.sql.
    cross join lateral (
      select * from holdfast.command where command_id = asked.id and domain || '' = p_domain offset 0
    ) as command
    where command.batch_id is not null
  ),
  gone as (
    delete from holdfast.batch_open
    using ended
    where batch_open.batch_id = ended.batch_id and batch_open.command_id = ended.command_id and batch_open.domain = p_domain
    returning ended.batch_id, ended.status
  )
  insert into holdfast.batch_tally (batch_id, completed, cancelled, due_at)
  select batch_id, count(*) filter (where status = 'COMPLETED'), count(*) filter (where status = 'CANCELLED'), p_now
  from gone
  group by batch_id;
  if found then
    perform holdfast.wake('batches');
  end if;
end
$$;

-- Cancels a command that no worker has received yet (C-14). Returns 'done', 'started', 'ended' or 'unknown'.
create or replace function holdfast.cancel_command(p_domain text, p_command_id uuid, p_actor text, p_reason text)
returns text
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_command holdfast.command;
  v_queue text;
  v_removed bigint;
begin
  select * into v_command from holdfast.command where command_id = p_command_id and domain = p_domain;
  if v_command.command_id is null then
    return 'unknown';
  elsif v_command.status <> 'PENDING' then
    return 'ended';
  end if;
  -- The lock on the message decides: a worker that is receiving it holds that lock. If the queue was dropped, no worker can receive the
  -- command.
  v_queue := (select queue from holdfast.command_queue where domain = p_domain);
  if holdfast.queue_exists(v_queue) then
    execute format(
      $query$
      delete from pgmq.%1$I where msg_id = (
        select msg_id from pgmq.%1$I where msg_id = $1 and read_ct = 0 for update skip locked
      ) returning msg_id
      $query$, 'q_' || v_queue
    ) into v_removed using v_command.msg_id;
    if v_removed is null then
      return 'started';
    end if;
  end if;
  update holdfast.command
  set status = 'CANCELLED', updated_at = v_now, msg_id = null
  where command_id = p_command_id and domain = p_domain;
  insert into holdfast.audit (at, model, event, subject_id, actor, reason, detail, before, after)
  values (v_now, 'commands', 'OPERATOR_CANCEL', p_command_id, p_actor, p_reason, jsonb_build_object('domain', p_domain),
    '{"status": "PENDING"}', '{"status": "CANCELLED"}');
  perform holdfast.leave_batches(p_domain, array[p_command_id], v_now);
  if v_command.reply_to is not null then
    perform holdfast.send_replies(jsonb_build_array(jsonb_build_object(
      'domain', p_domain, 'queue', v_command.reply_to, 'command_id', p_command_id,
      'message', jsonb_strip_nulls(jsonb_build_object(
        'command_id', p_command_id, 'correlation_id', v_command.correlation_id, 'outcome', 'CANCELLED', 'final', true,
        'effect', v_command.effect
      ))
    )));
  end if;
  return 'done';
end
$$;

-- Moves messages to troubleshooting whose type no worker has had a handler for, for longer than the given age (C-09).
create or replace function holdfast.sweep_unhandled(p_domain text, p_age interval)
returns int
language plpgsql
as $$
declare
  v_uuid constant text := '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$';
  v_now timestamptz := holdfast.now();
  v_queue text := (select queue from holdfast.command_queue where domain = p_domain);
  v_ids bigint[];
  v_reads int[];
  v_messages jsonb[];
  v_headers jsonb[];
  v_swept int;
  v_replies jsonb;
begin
  if v_queue is null or to_regclass(format('pgmq.%I', 'q_' || v_queue)) is null then
    return 0;
  end if;
  -- After an outage every live worker first gets time for its heartbeat.
  if not holdfast.absence_counts() then
    return 0;
  end if;
  execute format(
    $query$
    with recursive types as (
      (select message ->> 'command_type' as type from pgmq.%1$I
       where message ->> 'command_type' is not null order by message ->> 'command_type' limit 1)
      union all
      select (
        select message ->> 'command_type' from pgmq.%1$I
        where message ->> 'command_type' > types.type order by message ->> 'command_type' limit 1
      )
      from types
      where types.type is not null
    )
    select array_agg(stale.msg_id), array_agg(stale.read_ct), array_agg(stale.message), array_agg(stale.headers)
    from types,
    lateral (
      select msg_id, read_ct, message, headers from pgmq.%1$I
      where message ->> 'command_type' = types.type and vt <= $2 - $3
      order by vt
      limit 500
      for update skip locked
    ) as stale
    where not exists (
      select from %2$s.worker_definition as seen
      where seen.model = 'commands' and seen.name = $1 || '/' || types.type and seen.seen_at > $2 - $3
    )
    $query$, 'q_' || v_queue, holdfast.own_schema()
  ) into v_ids, v_reads, v_messages, v_headers using p_domain, v_now, p_age;
  if v_ids is null then
    return 0;
  end if;
  perform holdfast.adopt_messages(p_domain, v_now, v_ids, v_messages, v_headers);
  perform pgmq.archive(v_queue, v_ids);
  with stale as (
    select
      msg_id,
      read_ct,
      case when message ->> 'command_id' ~ v_uuid then (message ->> 'command_id')::uuid end as command_id
    from unnest(v_ids, v_reads, v_messages) as stale (msg_id, read_ct, message)
  ),
  changed as (
    update holdfast.command
    set status = 'IN_TROUBLESHOOTING_QUEUE', msg_id = null, updated_at = v_now, error_kind = 'PERMANENT',
        error_code = 'NO_HANDLER', error_message = 'no worker has a handler for ' || command.type,
        -- A worker has received it before. Whether its handler must not be called twice is not known here.
        inquiry = case when stale.read_ct > 0 then coalesce(inquiry, 'possible') else inquiry end,
        effect = case when stale.read_ct > command.attempts then 'unknown' else effect end
    from stale
    where command.command_id = stale.command_id and command.domain = p_domain
      and command.msg_id = stale.msg_id and command.status = 'PENDING'
    returning command.*
  ),
  audited as (
    insert into holdfast.audit (at, model, event, subject_id, detail)
    select v_now, 'commands', 'MOVED_TO_TSQ', command_id,
      jsonb_build_object('domain', p_domain, 'error_code', error_code, 'error_message', error_message)
    from changed
  ),
  troubled as (
    insert into holdfast.command_trouble (
      command_id, domain, type, since, error_kind, error_code, error_message, fingerprint, batch_id
    )
    select command_id, domain, type, v_now, error_kind, error_code, error_message, 'NO_HANDLER:' || type, batch_id from changed
  )
  select
    count(*),
    jsonb_agg(jsonb_build_object('domain', p_domain, 'queue', reply_to, 'command_id', command_id, 'message', jsonb_strip_nulls(jsonb_build_object(
      'command_id', command_id, 'correlation_id', correlation_id, 'outcome', 'FAILED', 'final', false,
      'error_type', error_kind, 'error_code', error_code, 'error_message', error_message
    )))) filter (where reply_to is not null)
  into v_swept, v_replies
  from changed;
  if v_replies is not null then
    perform holdfast.send_replies(v_replies);
  end if;
  return v_swept;
end
$$;
