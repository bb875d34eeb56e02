-- revision: 2
-- after: kernel, commands-send
--
-- Messages that other PGMQ clients put into a command queue without this library (C-07). `receive_commands` calls these functions for
-- messages that have no command yet. Every message either becomes a command, with a reason on record if it cannot be executed, or is
-- archived. What must not break: such a message is untrusted data (K-27), so nothing in it is executed, used as the name of a queue
-- without a check, or expanded to more memory than the limit of a payload.

-- Archives the messages that cannot be commands among the first `p_window` of these types, in one statement. A message that only looks
-- like a command is recognised later, when it is opened.
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

-- The ids of the commands that messages name, in their order; null for a message that names none, or one of another domain.
-- Matching a pattern would cost more than all the rest of opening a message, so all ids are cast at once, and one by one only if that
-- fails.
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

-- Why a message of a foreign client cannot be executed; null if it can (K-27). Its data is measured as text. Two checks come first, so
-- that at most a few hundred megabytes of text are ever made: jsonb takes at most eight times as much as the shortest text, and a number
-- such as 1e100000 takes few bytes in jsonb and many as text, and no worker could read it.
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

-- Makes commands of foreign messages (C-07). Messages that have a command already, or name none, are skipped. A message that cannot be
-- executed becomes a command in troubleshooting, without its data if the data is the problem; the message is in the archive. A reply
-- queue that the domain does not allow is not used, and the audit says so.
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

-- Whether a foreign client may have its replies sent to this queue: the queue named after the domain, and queues that an operator has
-- allowed (K-27).
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
