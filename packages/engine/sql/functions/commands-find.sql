-- revision: 3
-- after: commands-send, commands-receive, presence
--
-- Reads commands: one, a page of a list, or a count (C-14). Handles and `hf.commands` call it. What must not break: a page reads about
-- as many rows as it returns, plus a few for each type of the domains that it covers, however old and large the table is.

-- The types of the commands of a domain: one index lookup for each.
-- planner: no jit, no seqscan, no bitmapscan
create or replace function holdfast.command_types(p_domain text)
returns text[]
language sql
stable
as $$
  with recursive types as (
    (
      select command.type
      from holdfast.command
      where command.domain collate "C" = p_domain
      order by command.domain collate "C", command.type collate "C"
      limit 1
    )
    union all
    select (
      select command.type
      from holdfast.command
      where command.domain collate "C" = p_domain and command.type collate "C" > types.type collate "C"
      order by command.domain collate "C", command.type collate "C"
      limit 1
    )
    from types
    where types.type is not null
  )
  select coalesce(array_agg(type), '{}') from types where type is not null
$$;

-- Commands that match the filter, with the progress that their messages show; newest first. With `count` in the filter it returns one
-- row with the number of commands.
--
-- Each domain has a queue of its own, and so a branch of the query with its own order and limit. A filter by id, key, correlation id
-- or batch uses an index of the commands. Waiting and running commands are found through their messages, and commands in
-- troubleshooting through `command_trouble`, as long as there are few of them. All other lists read the newest commands of each type.
-- planner: no jit, no seqscan, no hashjoin, no mergejoin, no bitmapscan, no sort
create or replace function holdfast.find_commands(filter jsonb)
returns setof jsonb
language plpgsql
stable
as $$
declare
  v_few constant int := 10000;
  v_counts boolean := coalesce((filter ->> 'count')::boolean, false);
  v_narrow boolean := filter ?| array['command_id', 'key', 'correlation_id', 'batch_id'];
  v_live boolean := coalesce(filter ->> 'status' in ('PENDING', 'IN_PROGRESS'), false);
  v_order text := case when v_counts then '' else 'order by created_at desc, command_id desc limit ($1 ->> ''limit'')::int' end;
  v_schema text := holdfast.own_schema();
  v_after timestamptz;
  v_branches text[] := '{}';
  v_domain text;
  v_queue text;
  v_messages text;
  v_few_live boolean;
  v_found text;
  v_from text;
  v_source text;
  v_where text;
begin
  if filter ->> 'after_id' is not null then
    -- The cursor has milliseconds, the row microseconds. If the row is gone, the page begins after its whole millisecond.
    v_after := coalesce(
      (
        select created_at from holdfast.command
        where command_id = (filter ->> 'after_id')::uuid and domain = filter ->> 'after_domain'
      ),
      (filter ->> 'after')::timestamptz + interval '1 ms'
    );
  end if;
  for v_domain, v_queue in
    select command_queue.domain, queue
    from holdfast.command_queue
    where filter ->> 'domain' is null or command_queue.domain = filter ->> 'domain'
    order by 1
  loop
    -- Commands whose queue was dropped still exist, without messages.
    v_messages := case
      when holdfast.queue_exists(v_queue) then format('pgmq.%I', 'q_' || v_queue)
      else '(select null::bigint as msg_id, null::int as read_ct, null::timestamptz as vt, null::jsonb as message)'
    end;
    v_few_live := false;
    if v_live and not v_narrow and holdfast.queue_exists(v_queue) then
      execute format('select count(*) <= $1 from (select from %s as message limit $1 + 1) as waiting', v_messages)
      into v_few_live using v_few;
    end if;
    v_where := format(
      $query$
      command.domain = %1$L
        and ($1 ->> 'command_id' is null or command.command_id = ($1 ->> 'command_id')::uuid)
        and ($1 ->> 'type' is null or command.type = $1 ->> 'type')
        and ($1 ->> 'key' is null or command.key = $1 ->> 'key')
        and ($1 ->> 'correlation_id' is null or command.correlation_id = ($1 ->> 'correlation_id')::uuid)
        and ($1 ->> 'batch_id' is null or command.batch_id = ($1 ->> 'batch_id')::uuid)
        and ($1 ->> 'since' is null or command.created_at >= ($1 ->> 'since')::timestamptz)
        and ($1 ->> 'until' is null or command.created_at < ($1 ->> 'until')::timestamptz)
        and ($3 is null or (command.created_at, command.command_id, %1$L::text)
          < ($3, ($1 ->> 'after_id')::uuid, $1 ->> 'after_domain'))
        and ($1 ->> 'status' is null or $1 ->> 'status' = shown.status)
      $query$, v_domain
    );
    -- Ids of commands that wait or need an operator, where this is more selective than an index of the commands.
    v_found := case
      when v_few_live then format(
        'select distinct %s.uuid_or_null(waiting.message ->> ''command_id'') as id from %s as waiting', v_schema, v_messages
      )
      when filter ->> 'status' = 'IN_TROUBLESHOOTING_QUEUE' and not v_narrow then format(
        'select trouble.command_id as id from %s.command_trouble as trouble where trouble.domain = %L', v_schema, v_domain
      )
    end;
    v_from := case
      when v_found is null then v_schema || '.command'
      else format(
        '(%s) as found cross join lateral (select * from %s.command where command_id = found.id and domain || '''' = %L offset 0) as command',
        v_found, v_schema, v_domain
      )
    end;
    v_source := format(
      $query$
      select command.*, message.read_ct, message.vt, shown.status as shown_status
      from %1$s
      left join %2$s as message on message.msg_id = command.msg_id
      cross join lateral (
        select case
          when command.status = 'PENDING' and message.read_ct > command.attempts and message.vt > $2 then 'IN_PROGRESS'
          else command.status
        end as status
      ) as shown
      where %3$s
      $query$, v_from, v_messages, v_where
    );
    v_branches := v_branches || case
      when v_narrow or v_found is not null then format('(%s %s)', v_source, v_order)
      else format(
        $query$(
          select newest.*
          from unnest(%1$L::text[]) as lane (type),
          lateral (
            %2$s and command.domain collate "C" = %3$L and command.type collate "C" = lane.type collate "C" %4$s
          ) as newest
          %4$s
        )$query$,
        case when filter ->> 'type' is null then holdfast.command_types(v_domain) else array[filter ->> 'type'] end,
        v_source, v_domain, v_order
      )
    end;
  end loop;
  if cardinality(v_branches) = 0 then
    if v_counts then
      return next to_jsonb(0);
    end if;
    return;
  end if;
  if v_counts then
    return query execute format('select to_jsonb(count(*)) from (%s) as found', array_to_string(v_branches, ' union all '))
    using filter, holdfast.now(), v_after;
    return;
  end if;
  return query execute format(
    $query$
    select to_jsonb(found) - 'last_write' || jsonb_build_object(
      'status', found.shown_status,
      'paused', found.status = 'PENDING' and %s.is_paused(array[
        'domain:' || found.domain, 'definition:' || found.domain || '/' || found.type, 'handler:' || found.type
      ])
    )
    from (%s) as found
    order by found.created_at desc, found.command_id desc, found.domain desc
    limit ($1 ->> 'limit')::int
    $query$, v_schema, array_to_string(v_branches, ' union all ')
  ) using filter, holdfast.now(), v_after;
end
$$;
