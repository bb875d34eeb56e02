-- revision: 6
-- after: kernel
--
-- Access to the messages of one command queue. PGMQ has a table per queue, and a statement that names its table at run time is parsed
-- and planned on every call, which takes longer than executing it. So each command queue has three small functions of its own, whose
-- plans every connection keeps. A trigger creates them when the queue is registered:
--
--   put_<queue>    inserts messages
--   take_<queue>   claims messages that are due
--   end_<queue>    locks the messages of attempts that have ended, if they still have the epoch of the attempt, and deletes finished ones
--
-- They run with the planner settings of their callers and with a fixed search_path (K-27). When a template here changes, raise the
-- revision of this file: its last line creates the functions of all queues again.

create or replace function holdfast.make_queue_functions(p_queue text)
returns void
language plpgsql
as $$
begin
  perform holdfast.make_function(
    'put_' || p_queue,
    'ids bigint[], visible timestamptz[], messages jsonb[], headers jsonb[], out inserted int',
    format(
      $body$
      begin
        insert into pgmq.%1$I (msg_id, vt, message, headers)
        overriding system value
        select * from unnest(ids, visible, messages, headers);
        get diagnostics inserted = row_count;
      end
      $body$, 'q_' || p_queue
    )
  );

  -- One statement for all lanes, which fill the limit one after the other. A row that another transaction changed after the statement
  -- began has another ctid; the next claim finds it.
  --
  -- A claim reads at most `most_bytes` (K-23). Messages are measured first as stored and then in memory, because a compressed message
  -- may be 250 times as large there. Messages of up to 500 stored bytes are counted as stored, and if all are that small, nothing is
  -- measured one by one. The first message is always claimed, whatever its size; `is_full` says that more messages are due.
  perform holdfast.make_function(
    'take_' || p_queue,
    'domain text, lane_types text[], lane_froms float8[], due_by timestamptz, leased_until timestamptz, most int, '
      'spare_leased boolean, ceiling_ms int, most_bytes int default 33554432, '
      'out ids bigint[], out reads int[], out messages jsonb[], out headers jsonb[], '
      'out count int, out last_lane int, out last_vt timestamptz, out next_vt timestamptz, out is_full boolean',
    format(
      $body$
      begin
        with due as materialized (
          select lane.place, queue.ctid, queue.vt, queue.stored
          from unnest(lane_types, lane_froms) with ordinality as lane (type, start, place),
          lateral (
            select q.ctid, q.vt, pg_column_size(q.message) as stored
            from pgmq.%1$I as q
            where q.message ->> 'command_type' = lane.type
              and q.vt >= coalesce(to_timestamp(lane.start / 1000), '-infinity')
              and q.vt <= due_by
              and (not spare_leased or q.read_ct = 0 or %2$sis_between_attempts(domain, q.message ->> 'command_id', q.read_ct))
            order by q.vt
            for update skip locked
          ) queue
          limit most
        ),
        totals as materialized (
          select count(*) as found, coalesce(max(due.stored) <= 500 and sum(due.stored) <= most_bytes, true) as are_small
          from due
        ),
        measured as (
          select near.place, near.ctid, near.vt, case
              when near.stored <= 500 then near.stored
              else (select pg_column_size(q.message || '{}') from pgmq.%1$I as q where q.ctid = near.ctid)
            end as bytes
          from (
            select due.*, sum(due.stored) over (order by due.place, due.vt, due.ctid rows unbounded preceding) - due.stored as before
            from due
          ) as near
          where near.before < most_bytes
        ),
        fitting as materialized (
          select due.place, due.ctid, due.vt from due where (select totals.are_small from totals)
          union all
          select running.place, running.ctid, running.vt
          from (
            select measured.*,
              sum(measured.bytes) over (order by measured.place, measured.vt, measured.ctid rows unbounded preceding)
                - measured.bytes as before
            from measured
            where not (select totals.are_small from totals)
          ) as running
          where running.before = 0 or running.before + running.bytes <= most_bytes
        ),
        taken as (
          update pgmq.%1$I as q
          set vt = leased_until, read_ct = q.read_ct + 1
          where q.ctid = any (array(select fitting.ctid from fitting))
          returning q.msg_id, q.read_ct, q.message, q.headers
        )
        select
          array_agg(taken.msg_id), array_agg(taken.read_ct), array_agg(taken.message), array_agg(taken.headers),
          (select count(*) from fitting),
          (select max(fitting.place) from fitting),
          (select max(fitting.vt) from fitting where fitting.place = (select max(fitting.place) from fitting)),
          (select totals.found from totals) = most or (select totals.found from totals) > (select count(*) from fitting)
        into ids, reads, messages, headers, count, last_lane, last_vt, is_full
        from taken;
        if not is_full then
          select min(queue.vt) into next_vt
          from unnest(lane_types) as lane (type),
          lateral (
            select q.vt
            from pgmq.%1$I as q
            where q.message ->> 'command_type' = lane.type
              and q.vt > due_by
              and q.vt <= due_by + ceiling_ms * interval '1 ms'
            order by q.vt
            limit 1
          ) queue;
        end if;
      end
      $body$, 'q_' || p_queue, 'holdfast.'
    )
  );

  -- Returns the messages whose lease the caller still has. A message that another transaction changed after the statement began has
  -- another ctid and is missing from the result; the caller treats it as locked and tries again.
  perform holdfast.make_function(
    'end_' || p_queue,
    'ids bigint[], reads int[], done boolean[], out mine bigint[]',
    format(
      $body$
      begin
        with free as materialized (
          select asked.is_done, queue.msg_id, queue.ctid
          from unnest(ids, reads, done) as asked (msg_id, read_ct, is_done),
          lateral (
            select q.msg_id, q.ctid
            from pgmq.%1$I as q
            where q.msg_id = asked.msg_id and q.read_ct = asked.read_ct
            for update skip locked
          ) queue
        ),
        gone as (
          delete from pgmq.%1$I as q
          where q.ctid = any (array(select free.ctid from free where free.is_done))
          returning q.msg_id
        )
        select coalesce(array_agg(ours.msg_id), '{}')
        into mine
        from (select gone.msg_id from gone union all select free.msg_id from free where not free.is_done) ours;
      end
      $body$, 'q_' || p_queue
    )
  );
end
$$;

-- Runs with the rights of its owner, because a role that only runs workers may not create functions (docs/operations/rights.md).
create or replace function holdfast.make_functions_of_new_queue()
returns trigger
language plpgsql
security definer
as $$
begin
  perform holdfast.make_queue_functions(new.queue);
  return null;
end
$$;

create or replace trigger command_queue_has_functions
after insert on holdfast.command_queue
for each row execute function holdfast.make_functions_of_new_queue();

select holdfast.make_queue_functions(queue) from holdfast.command_queue;
