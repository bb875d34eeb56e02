-- revision: 11
-- after: commands-send, command-queues
--
-- The ends of attempts: completed, failed, to be retried later, or in troubleshooting, with their replies and batches. Workers call
-- it for many attempts at once. What must not break: the statement that changes the command locks its message and compares
-- `read_ct`, so an attempt that has lost its lease changes nothing; command, audit, reply and batch change in one transaction; each
-- command has exactly one final reply.

-- Finishes attempts (C-08): compares the fence of the message (`msg_id`, `read_ct`), then changes message, command, audit, reply and
-- batch in one transaction. Each write has an outcome: COMPLETED, FAILED, RETRY (the message is hidden until then) or TSQ.
-- Returns, in the order of the writes: 0 done, 1 lease lost, 2 locked by another transaction.
-- planner: indexed
create or replace function holdfast.finish_commands(p_queue text, p_domain text, writes jsonb)
returns int[]
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  -- Two domains may use the same id, so each audit row names its domain.
  v_first_attempt jsonb := jsonb_build_object('attempt', 1, 'domain', p_domain);
  v_table text := 'q_' || p_queue;
  v_writes jsonb := writes;
  v_ids bigint[];
  v_reads int[];
  v_done boolean[];
  v_mine bigint[];
  v_troubled bigint[];
  v_retried bigint[];
  v_retry_at timestamptz[];
  v_replies jsonb;
  v_applied int;
  v_batches boolean;
begin
  select
    array_agg((it ->> 'msg_id')::bigint),
    array_agg((it ->> 'read_ct')::int),
    array_agg(it ->> 'outcome' in ('COMPLETED', 'FAILED'))
  into v_ids, v_reads, v_done
  from jsonb_array_elements(writes) as it;
  execute format('select %s%I($1, $2, $3)', 'holdfast.', 'end_' || p_queue) into v_mine using v_ids, v_reads, v_done;
  if cardinality(v_mine) < jsonb_array_length(writes) then
    select coalesce(jsonb_agg(it), '[]') into v_writes
    from jsonb_array_elements(writes) as it
    where (it ->> 'msg_id')::bigint = any (v_mine);
  end if;

  if jsonb_array_length(v_writes) > 0 then
    if false = any (v_done) then
      select
        array_agg((it ->> 'msg_id')::bigint) filter (where it ->> 'outcome' = 'TSQ'),
        array_agg((it ->> 'msg_id')::bigint) filter (where it ->> 'outcome' = 'RETRY'),
        array_agg(v_now + (it ->> 'delay_ms')::float8 * interval '1 ms') filter (where it ->> 'outcome' = 'RETRY')
      into v_troubled, v_retried, v_retry_at
      from jsonb_array_elements(v_writes) as it;
    end if;
    if v_troubled is not null then
      perform pgmq.archive(p_queue, v_troubled);
    end if;
    if v_retried is not null then
      execute format(
        'update pgmq.%I as q set vt = due.at from unnest($1, $2) as due (msg_id, at) where q.msg_id = due.msg_id', v_table
      ) using v_retried, v_retry_at;
    end if;

    with written as materialized (
      select *
      from jsonb_to_recordset(v_writes) as w (
        msg_id bigint, read_ct int, command_id uuid, outcome text, token uuid, result jsonb, result_notes jsonb,
        delay_ms float8, error_kind text, error_code text, error_message text, error_stack text, fingerprint text, inquiry text,
        effect text
      )
      -- Always true, and estimated as one row. So the plan begins here and looks commands up by id, also if it was made while the table
      -- was small and had no statistics.
      where read_ct = read_ct + 0
    ),
    changed as (
      update holdfast.command
      set status = case written.outcome
            when 'RETRY' then 'PENDING'
            when 'TSQ' then 'IN_TROUBLESHOOTING_QUEUE'
            else written.outcome
          end,
          attempts = written.read_ct,
          msg_id = case when written.outcome = 'RETRY' then command.msg_id end,
          updated_at = v_now,
          last_write = written.token,
          result = written.result,
          result_notes = nullif(written.result_notes, 'null'),
          error_kind = written.error_kind,
          error_code = written.error_code,
          error_message = written.error_message,
          inquiry = written.inquiry,
          -- An unknown outcome stays unknown until it is resolved (K-19). A receive that left no record may have called the handler.
          effect = case
            when written.outcome = 'COMPLETED' or written.effect = 'none' then null
            when written.effect = 'unknown' or written.read_ct > command.attempts + 1 then 'unknown'
            else command.effect
          end
      from written
      where command.command_id = written.command_id
        and command.domain || '' = p_domain
        and command.status = 'PENDING'
      returning
        written.*, command.type, command.correlation_id, command.reply_to, command.batch_id, command.max_attempts,
        command.effect as known_effect, written.read_ct - command.uncounted as attempt
    ),
    audited as (
      insert into holdfast.audit (at, model, event, subject_id, detail)
      select
        v_now,
        'commands',
        case outcome when 'RETRY' then 'RETRY_SCHEDULED' when 'TSQ' then 'MOVED_TO_TSQ' else outcome end,
        command_id,
        case
          when outcome = 'COMPLETED' and read_ct = 1 then v_first_attempt
          when outcome = 'COMPLETED' then jsonb_build_object('attempt', attempt, 'domain', p_domain)
          else jsonb_strip_nulls(jsonb_build_object(
            'attempt', attempt, 'domain', p_domain, 'error_kind', error_kind, 'error_code', error_code, 'error_message', error_message,
            'error_stack', error_stack, 'delay_ms', delay_ms
          ))
        end
      from changed
    )
    select
      count(*),
      bool_or(batch_id is not null and outcome <> 'RETRY'),
      jsonb_agg(jsonb_build_object('domain', p_domain, 'queue', reply_to, 'command_id', command_id, 'message', jsonb_strip_nulls(jsonb_build_object(
        'command_id', command_id,
        'correlation_id', correlation_id,
        'outcome', case when outcome = 'COMPLETED' then 'SUCCESS' else 'FAILED' end,
        'final', outcome <> 'TSQ',
        'error_type', case error_kind when 'BUSINESS' then 'BUSINESS_RULE' else error_kind end,
        'error_code', error_code,
        'error_message', error_message,
        -- An earlier call may have had its effect, so the receiver of the reply may have to undo it (K-19).
        'effect', case when outcome = 'FAILED' then known_effect end
      )) || case when outcome = 'COMPLETED' then jsonb_build_object('result', result) else '{}' end,
        'notes', result_notes)) filter (where reply_to is not null and outcome <> 'RETRY')
    into v_applied, v_batches, v_replies
    from changed;

    if v_applied < jsonb_array_length(v_writes) then
      insert into holdfast.audit (at, model, event, subject_id, detail)
      select v_now, 'commands', 'ORPHANED', (it ->> 'command_id')::uuid, jsonb_build_object('domain', p_domain, 'outcome', it ->> 'outcome')
      from jsonb_array_elements(v_writes) as it
      left join holdfast.command on command.command_id = (it ->> 'command_id')::uuid and command.domain || '' = p_domain
      where command.last_write is distinct from (it ->> 'token')::uuid;
    end if;
    if v_troubled is not null then
      perform holdfast.note_trouble(p_domain, v_now, v_writes);
    end if;
    if v_batches then
      perform holdfast.leave_batches(p_domain, v_now, v_writes);
    end if;
    if v_replies is not null then
      perform holdfast.send_replies(v_replies);
    end if;
  end if;

  if v_applied > coalesce(cardinality(v_retried), 0) then
    perform holdfast.wake_results('commands');
  end if;
  if v_applied = jsonb_array_length(writes) then
    return array_fill(0, array[v_applied]);
  end if;
  return holdfast.finish_answers(v_table, p_domain, writes, v_mine);
end
$$;

-- Records commands that are in troubleshooting from now on. Here and below, the tokens of writes tell which of them were applied.
create or replace function holdfast.note_trouble(p_domain text, p_now timestamptz, writes jsonb)
returns void
language plpgsql
as $$
begin
  insert into holdfast.command_trouble (
    command_id, domain, type, since, error_kind, error_code, error_message, error_stack, fingerprint, batch_id
  )
  select command_id, p_domain, type, p_now, error_kind, error_code, error_message, it ->> 'error_stack',
    it ->> 'fingerprint', batch_id
  from jsonb_array_elements(writes) as it
  join holdfast.command on command.command_id = (it ->> 'command_id')::uuid and command.domain || '' = p_domain
  where it ->> 'outcome' = 'TSQ' and command.last_write = (it ->> 'token')::uuid;
end
$$;

-- Removes ended commands from their batches, and leaves due tallies for the worker that closes batches.
create or replace function holdfast.leave_batches(p_domain text, p_now timestamptz, writes jsonb)
returns void
language plpgsql
as $$
begin
  with ended as (
    select command.command_id, command.batch_id, it ->> 'outcome' as outcome
    from jsonb_array_elements(writes) as it
    -- `offset 0` keeps the conditions below out of the lookup, so that it uses the primary key. Without statistics the planner believes
    -- that the index of batches is almost empty, and would read every command of the batch for each flush.
    cross join lateral (
      select * from holdfast.command where command_id = (it ->> 'command_id')::uuid and domain || '' = p_domain offset 0
    ) as command
    where command.batch_id is not null
      and it ->> 'outcome' <> 'RETRY'
      and command.last_write = (it ->> 'token')::uuid
  ),
  left_batch as (
    delete from holdfast.batch_open
    using ended
    where batch_open.batch_id = ended.batch_id
      and batch_open.command_id = ended.command_id
      and batch_open.domain = p_domain
      and ended.outcome <> 'TSQ'
  )
  insert into holdfast.batch_tally (batch_id, completed, failed, due_at)
  select
    batch_id,
    count(*) filter (where outcome = 'COMPLETED'),
    count(*) filter (where outcome = 'FAILED'),
    p_now
  from ended
  group by batch_id;
  perform holdfast.wake('batches');
end
$$;

-- What to return for writes whose message was not locked by us: done now or earlier, lease lost, or locked by another transaction.
create or replace function holdfast.finish_answers(v_table text, p_domain text, writes jsonb, mine bigint[])
returns int[]
language plpgsql
as $$
declare
  v_there bigint[];
begin
  execute format(
    $query$
    select coalesce(array_agg(q.msg_id), '{}')
    from jsonb_array_elements($1) as it
    join pgmq.%I as q on q.msg_id = (it ->> 'msg_id')::bigint and q.read_ct = (it ->> 'read_ct')::int
    $query$, v_table
  ) into v_there using writes;
  return array(
    select case
      when (it ->> 'msg_id')::bigint = any (mine) then 0
      when command.last_write = (it ->> 'token')::uuid then 0
      when (it ->> 'msg_id')::bigint = any (v_there) then 2
      else 1
    end
    from jsonb_array_elements(writes) with ordinality as asked (it, place)
    left join holdfast.command on command.command_id = (it ->> 'command_id')::uuid and command.domain || '' = p_domain
    order by place
  );
end
$$;

-- Sends replies to their queues. A missing or invalid queue does not prevent the end of the command; it is audited (C-10).
-- Transient errors are raised, because they are not caused by the queue.
create or replace function holdfast.send_replies(replies jsonb)
returns void
language plpgsql
as $$
declare
  v_queue text;
  v_messages jsonb;
begin
  for v_queue, v_messages in
    select it ->> 'queue', jsonb_agg(it) from jsonb_array_elements(replies) as it group by 1 order by 1
  loop
    begin
      execute format(
        $query$
        insert into pgmq.%I (vt, message, headers)
        select holdfast_now, it -> 'message', case when jsonb_typeof(it -> 'notes') = 'object' then jsonb_build_object('notes', it -> 'notes') end
        from jsonb_array_elements($1) as it, (select $2 as holdfast_now) as clock
        $query$, 'q_' || v_queue
      ) using v_messages, holdfast.now();
      perform holdfast.wake('queue:' || v_queue);
    exception when others then
      if sqlstate ~ '^(08|25|40|53|55|57|58|XX)' then
        raise;
      end if;
      insert into holdfast.audit (at, model, event, subject_id, detail)
      select holdfast.now(), 'commands', 'REPLY_FAILED', (it ->> 'command_id')::uuid,
        jsonb_strip_nulls(jsonb_build_object('domain', it ->> 'domain', 'queue', v_queue, 'problem', sqlerrm))
      from jsonb_array_elements(v_messages) as it;
    end;
  end loop;
end
$$;
