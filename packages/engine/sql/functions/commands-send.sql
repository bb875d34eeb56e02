-- revision: 9
-- after: command-queues
--
-- Sends commands. PGMQ has a table per queue, so frequent statements on it are in functions per queue (command-queues.sql), and rare
-- ones are built with the name of the queue. All other statements are static, with pinned planner settings (ARCHITECTURE.md). What must
-- not break: commands are looked up by id, and the domain is compared as `domain || ''`, which no index can serve. Otherwise a plan
-- that was made while the table was empty would read all commands of the domain for each one, and the connection would keep that plan.

-- The schema of this installation, quoted, for statements that are built.
create or replace function holdfast.own_schema()
returns text
language sql
stable
as $$
  select relnamespace::regnamespace::text from pg_class where oid = (select tableoid from holdfast.clock)
$$;

-- Whether there is a queue of this name. Sequences and indexes of PGMQ have names that begin like a queue's.
create or replace function holdfast.queue_exists(p_queue text)
returns boolean
language sql
stable
as $$
  select exists (
    select from pg_catalog.pg_class
    where oid = to_regclass(format('pgmq.%I', 'q_' || p_queue)) and relkind in ('r', 'p')
  )
$$;

-- The largest size of one value as JSON in this installation (K-10).
create or replace function holdfast.payload_bytes()
returns int
language sql
stable
as $$
  select coalesce((select value::int from holdfast.setting where name = 'payload_bytes'), 1048576)
$$;

-- Refuses a value from SQL that exceeds that limit. `p_what` is the beginning of the message.
create or replace function holdfast.check_payload(p_what text, p_value jsonb)
returns void
language plpgsql
stable
as $$
declare
  v_bytes int := octet_length(p_value::text);
begin
  if v_bytes > holdfast.payload_bytes() then
    raise exception 'HF_TOO_LARGE: % takes % bytes; the limit is %', p_what, v_bytes, holdfast.payload_bytes()
      using errcode = 'program_limit_exceeded', hint = 'Store it elsewhere and send a reference to it.';
  end if;
end
$$;

-- Sends commands: the command, its SENT audit, its message, and its place in a batch, in one call (C-01).
-- It only inserts, so it may run inside a caller's transaction (K-15). The request is a list of domains, each with its queue and its
-- commands, and `plain` if none of them has a key, a batch or a reply queue. Returns a row for each command that was not sent:
-- 'duplicate', or what is wrong with it; nothing was written for those.
-- planner: looped, no material
create or replace function holdfast.send_commands(request jsonb)
returns table (in_domain text, id uuid, outcome text)
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_queue text;
  v_domain text;
  v_rows jsonb;
  v_plain boolean;
  v_gone text[];
  v_batches uuid[];
  v_sequence regclass;
  v_type text;
  v_detail jsonb;
  v_sent int;
  v_ids bigint[];
  v_visible timestamptz[];
  v_messages jsonb[];
  v_headers jsonb[];
  v_members uuid[];
  v_member_of uuid[];
begin
  for v_queue, v_domain, v_rows, v_plain in
    select part ->> 'queue', part ->> 'domain', part -> 'commands', coalesce((part -> 'plain')::boolean, false)
    from jsonb_array_elements(request) as part
    order by 1, 2
  loop
    if not holdfast.queue_exists(v_queue) then
      -- Returned and not raised: the request has commands of other senders too.
      return query select v_domain, (it ->> 'command_id')::uuid, 'queue gone' from jsonb_array_elements(v_rows) as it;
      continue;
    end if;
    v_sequence := pg_get_serial_sequence(format('pgmq.%I', 'q_' || v_queue), 'msg_id');
    if not v_plain then
      -- Sealing locks the batch for update and so waits for senders in flight; counting and closing do not wait for them.
      v_batches := array(
        select batch_id
        from holdfast.batch
        where batch_id = any (array(
          select (it ->> 'batch_id')::uuid from jsonb_array_elements(v_rows) as it where it ->> 'batch_id' is not null
        )) and not sealed
        order by batch_id
        for key share
      );
      v_gone := array(
        select distinct it ->> 'reply_to'
        from jsonb_array_elements(v_rows) as it
        where it ->> 'reply_to' is not null and not holdfast.queue_exists(it ->> 'reply_to')
      );
    end if;
    -- Most commands that are sent together have one type, and then their audit rows have the same text.
    v_type := v_rows -> 0 ->> 'type';
    v_detail := jsonb_build_object('domain', v_domain, 'type', v_type);
    with sent as (
      insert into holdfast.command (
        command_id, domain, type, max_attempts, msg_id, correlation_id, reply_to, batch_id, version,
        created_at, run_at, updated_at, send_token, key, data, notes
      )
      select
        (it ->> 'command_id')::uuid,
        v_domain,
        it ->> 'type',
        (it ->> 'max_attempts')::int,
        nextval(v_sequence),
        (it ->> 'correlation_id')::uuid,
        it ->> 'reply_to',
        (it ->> 'batch_id')::uuid,
        (it ->> 'version')::int,
        v_now,
        coalesce((it ->> 'run_at')::timestamptz, v_now + (it ->> 'delay_ms')::float8 * interval '1 ms'),
        v_now,
        (it ->> 'token')::uuid,
        -- Reading a missing field costs as much as reading any other.
        case when not v_plain then it ->> 'key' end,
        it -> 'data',
        nullif(it -> 'notes', 'null')
      from jsonb_array_elements(v_rows) as it
      where not coalesce(it ->> 'reply_to' = any (v_gone), false)
        and (it ->> 'batch_id' is null or (it ->> 'batch_id')::uuid = any (v_batches))
      on conflict (command_id, domain) do nothing
      returning *
    ),
    audits as (
      insert into holdfast.audit (at, model, event, subject_id, detail)
      select v_now, 'commands', 'SENT', command_id,
        case type when v_type then v_detail else jsonb_build_object('domain', v_domain, 'type', type) end
      from sent
    )
    select
      count(*),
      array_agg(msg_id),
      -- Never before now: claims begin where the last one ended, and would find an earlier message late.
      array_agg(greatest(run_at, v_now)),
      array_agg(to_jsonb(message)),
      array_agg(case when notes is not null then jsonb_build_object('notes', notes) end),
      array_agg(sent.command_id) filter (where batch_id is not null),
      array_agg(batch_id) filter (where batch_id is not null)
    into v_sent, v_ids, v_visible, v_messages, v_headers, v_members, v_member_of
    from sent,
    lateral (
      select v_domain as domain, type as command_type, command_id, correlation_id, data, reply_to
    ) message;
    execute format('select %s%I($1, $2, $3, $4)', 'holdfast.', 'put_' || v_queue)
    using v_ids, v_visible, v_messages, v_headers;
    if v_members is not null then
      perform holdfast.join_batches(v_domain, v_members, v_member_of);
    end if;
    if v_sent < jsonb_array_length(v_rows) then
      return query
      select v_domain, (it ->> 'command_id')::uuid, case
          when it ->> 'reply_to' = any (v_gone) then 'reply queue gone'
          when it ->> 'batch_id' is not null and not (it ->> 'batch_id')::uuid = any (v_batches) then 'batch closed'
          else 'duplicate'
        end
      from jsonb_array_elements(v_rows) as it
      left join holdfast.command on command.command_id = (it ->> 'command_id')::uuid and command.domain || '' = v_domain
      -- A command with our token, or with an id that the client generated, was sent by us: now, or by an earlier flush whose response
      -- was lost (K-05).
      where case
        when it ->> 'token' is null then command.command_id is null
        else command.send_token is distinct from (it ->> 'token')::uuid
      end;
    end if;
    perform holdfast.wake('commands:' || v_domain);
  end loop;
end
$$;

create or replace function holdfast.join_batches(p_domain text, members uuid[], batches uuid[])
returns void
language plpgsql
as $$
begin
  insert into holdfast.batch_open (batch_id, command_id, domain)
  select batch_id, command_id, p_domain from unnest(batches, members) as member (batch_id, command_id);
  insert into holdfast.batch_tally (batch_id, added)
  select batch_id, count(*) from unnest(batches) as member (batch_id) group by batch_id;
end
$$;

-- The same for a flush of many senders. A command id that an open transaction is inserting would make the whole flush wait for that
-- transaction, so the wait is short, and the sender of that id is retried apart (K-05).
create or replace function holdfast.flush_sends(request jsonb)
returns table (in_domain text, id uuid, outcome text)
language sql
set lock_timeout = '100ms'
as $$
  select * from holdfast.send_commands(request)
$$;
