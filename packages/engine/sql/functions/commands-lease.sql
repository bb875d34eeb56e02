-- revision: 3
-- after: kernel
--
-- Leases of received messages: heartbeat, release, early end of a lease, the lock for a handler's own transaction, and the age of the
-- oldest due message. Workers call these functions for commands and for replies. A message belongs to a worker as long as its `read_ct`
-- is the one that the worker's claim set; every function compares it. What must not break: nothing here waits for a message that
-- another transaction has locked, except `hold_command`, which runs inside the handler's transaction.

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
      from (select * from unnest($1, $2) as asked (msg_id, read_ct) order by msg_id) as asked,
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

-- Releases messages that were received and not begun: visible at once, and the receive does not count. A message that another
-- transaction has locked stays leased until its lease ends, because a worker that stops must not wait.
create or replace function holdfast.release_commands(p_queue text, ids bigint[], reads int[])
returns void
language plpgsql
as $$
begin
  execute format(
    $query$
    with free as (
      select q.msg_id
      from (select * from unnest($1, $2) as asked (msg_id, read_ct) order by msg_id) as asked,
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

-- Ends leases now, of handlers that have ended and left no record. A message that waits for its next attempt is not changed.
create or replace function holdfast.expire_commands(p_queue text, p_domain text, ids bigint[], reads int[])
returns void
language plpgsql
as $$
begin
  execute format(
    $query$
    with free as (
      select q.msg_id
      from (select * from unnest($1, $2) as asked (msg_id, read_ct) order by msg_id) as asked,
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

-- For how many seconds the oldest due message of a queue has been due: of these types, or of all if `types` is null.
create or replace function holdfast.oldest_command_seconds(p_queue text, types text[])
returns float8
language plpgsql
as $$
declare
  v_oldest timestamptz;
begin
  if types is null then
    execute format('select vt from pgmq.%I where vt <= $1 order by vt limit 1', 'q_' || p_queue)
    into v_oldest using holdfast.now();
  else
    execute format(
      $query$
      select min(oldest.vt)
      from unnest($1) as type,
      lateral (
        select vt from pgmq.%I where message ->> 'command_type' = type.type and vt <= $2 order by vt limit 1
      ) oldest
      $query$, 'q_' || p_queue
    ) into v_oldest using types, holdfast.now();
  end if;
  return extract(epoch from holdfast.now() - v_oldest);
end
$$;
