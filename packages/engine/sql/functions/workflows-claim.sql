-- revision: 11
-- after: kernel, workflows-write, workflows-set-aside, lost-claims, dispatch-begin
--
-- Claims workflow steps, called by each worker for the handlers that it has. One claim covers all handlers in the order of priorities
-- (W-12), which is in `rank`. What must not break: a claim never waits for a row that another transaction has locked, reads a bounded
-- number of rows however large the backlog is (K-17), and raises `lease_epoch` of each step that it leases.

-- One claim over all handlers of a worker, in the order in which items reach priority 100 (W-12). A step that is as the queue says begins
-- here: it is running, and the call is counted before it is made. Any other step (a lost call, a step that must not be called any more)
-- is returned with `fresh` false, and the engine decides. A cancelled step whose lease has ended is returned to every worker, whatever
-- its handlers and pauses: no handler is called for it, and the service that had the call may be gone (W-11).
-- planner: indexed
create or replace function holdfast.claim_workflow_steps(
  handlers text[], worker text, most int, p_lease_ms int, p_beat_ms int, spare_leased boolean, ceiling_ms int
)
returns table (items json, next_due_ms float8)
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_handlers text[] := handlers;
  v_paused int[];
  -- How many of each handler's first steps may be claimed, where paused steps are being set aside.
  v_free int[];
  v_ids uuid[];
  v_numbers smallint[];
  v_fresh boolean[];
  v_leases int[];
  v_lost uuid[];
  v_lost_numbers smallint[];
  v_room int;
  v_starts uuid[];
  v_admitted uuid[];
  v_next timestamptz;
  v_items json;
begin
  if exists (select from holdfast.pause) then
    v_handlers := array(select it from unnest(handlers) as it where not holdfast.is_paused(array['handler:' || it]));
    v_paused := array(
      select definition.id
      from holdfast.workflow_definition as definition
      where holdfast.is_paused(array['domain:' || split_part(definition.name, '/', 1), 'definition:' || definition.name])
    );
  end if;
  if exists (select from holdfast.workflow_set_aside) then
    perform holdfast.take_back_workflow_steps(v_paused);
  end if;
  -- Delayed steps that have fallen due, and leases that have ended.
  with due as (
    select it.workflow_id, it.number
    from unnest(v_handlers) as wanted
    cross join lateral (
      select workflow_id, number
      from holdfast.workflow_step
      where handler = wanted and not ready and due_at <= v_now and (leased_at is null or not spare_leased)
      order by due_at
      limit greatest(4 * most, 1000)
      for no key update skip locked
    ) as it
  )
  update holdfast.workflow_step as step
  set ready = true, leased_by = null, leased_at = null
  from due
  where step.workflow_id = due.workflow_id and step.number = due.number;

  if cardinality(v_paused) > 0 then
    v_free := holdfast.set_aside_workflow_steps(v_handlers, v_paused, most + 1000);
  end if;
  select array_agg(it.workflow_id), array_agg(it.number), array_agg(it.fresh), array_agg(it.lease_ms)
  into v_ids, v_numbers, v_fresh, v_leases
  from (
    select workflow_id, number, false as fresh, greatest(p_lease_ms, p_beat_ms) as lease_ms
    from holdfast.workflow_step
    where abort and due_at <= v_now and (leased_at is null or not spare_leased)
    order by due_at
    limit most
    for no key update skip locked
  ) as it;
  v_room := most - coalesce(cardinality(v_ids), 0);

  select v_ids || array_agg(it.workflow_id), v_numbers || array_agg(it.number), v_fresh || array_agg(it.fresh),
    v_leases || array_agg(it.lease_ms)
  into v_ids, v_numbers, v_fresh, v_leases
  from (
    select found.workflow_id, found.number, found.fresh,
      -- Never shorter than the lease that the worker's heartbeat is set up for.
      greatest(
        coalesce((select lease_ms from holdfast.workflow_definition where id = found.definition_id), p_lease_ms), p_beat_ms
      ) as lease_ms
    from unnest(v_handlers) with ordinality as lane (wanted, place)
    cross join lateral (
      select workflow_id, number, definition_id, rank, scheduled_at,
        not in_flight and status = case when compensates then 'COMPENSATING' else 'PENDING' end as fresh
      from holdfast.workflow_step
      where handler = wanted and ready and not abort and (v_paused is null or definition_id <> all (v_paused))
        -- A lost call that a claim without room for it has made ready.
        and (not spare_leased or not in_flight)
      order by rank, scheduled_at
      limit least(v_room, v_free[lane.place])
      for no key update skip locked
    ) as found
    order by found.rank, found.scheduled_at
    limit v_room
  ) as it;
  if -1 = any (v_numbers) then
    -- Starts of dispatched instances: those that dispatch does not let begin now are due later.
    v_starts := array(select id from unnest(v_ids, v_numbers) as it (id, number) where number = -1);
    v_admitted := holdfast.admit_dispatched_roots(v_starts);
    if cardinality(v_admitted) < cardinality(v_starts) then
      select array_agg(it.id order by place), array_agg(it.number order by place), array_agg(it.fresh order by place),
        array_agg(it.lease order by place)
      into v_ids, v_numbers, v_fresh, v_leases
      from unnest(v_ids, v_numbers, v_fresh, v_leases) with ordinality as it (id, number, fresh, lease, place)
      where it.number <> -1 or it.id = any (v_admitted);
    end if;
  end if;
  if v_ids is not null then
    with claimed as (
      update holdfast.workflow_step as step
      set ready = false,
          due_at = v_now + asked.lease_ms * interval '1 ms',
          lease_epoch = step.lease_epoch + 1,
          leased_by = worker,
          leased_at = v_now,
          in_flight = step.in_flight or asked.fresh,
          status = case when asked.fresh and not compensates then 'RUNNING' else step.status end,
          attempts = attempts + (asked.fresh and not compensates)::int,
          compensation_attempts = compensation_attempts + (asked.fresh and compensates)::int,
          started_at = coalesce(started_at, v_now)
      from unnest(v_ids, v_numbers, v_fresh, v_leases) as asked (id, number, fresh, lease_ms)
      where step.workflow_id = asked.id and step.number = asked.number
      returning step.*, asked.fresh
    ),
    started as (
      insert into holdfast.audit (at, model, event, subject_id, detail)
      select v_now, 'workflows', 'step_started', workflow_id,
        jsonb_build_object('step', name, 'status', status, 'attempts', attempts)
      from claimed
      where fresh and not compensates and number >= 0
    )
    -- Rows as arrays: field names would be most of the result.
    select json_agg(json_build_array(
      workflow_id, number, definition_id, handler, compensates, lease_epoch, fresh,
      case when compensates then compensation_attempts else attempts end, input, input_notes,
      case when compensates then output end, case when compensates then output_notes end, outcome, compensation_outcome,
      extract(epoch from v_now - scheduled_at)::float8 * 1000
    ) order by rank, scheduled_at),
    -- Not fresh although a call was in flight: the call was lost.
    array_agg(workflow_id) filter (where in_flight and not fresh),
    array_agg(number) filter (where in_flight and not fresh)
    into v_items, v_lost, v_lost_numbers
    from claimed;
    if v_lost is not null then
      v_items := holdfast.weigh_lost_steps(v_items, v_lost, v_lost_numbers);
    end if;
  end if;
  if coalesce(cardinality(v_ids), 0) < most and most > any (v_free) then
    -- More paused steps are in front: the next claim continues there, at once.
    v_next := v_now;
  elsif coalesce(cardinality(v_ids), 0) < most then
    select min(it.due_at)
    into v_next
    from unnest(v_handlers) as wanted
    cross join lateral (
      select due_at
      from holdfast.workflow_step
      where handler = wanted and not ready and due_at > v_now and due_at <= v_now + ceiling_ms * interval '1 ms'
      order by due_at
      limit 1
    ) as it;
    v_next := least(v_next, (
      select due_at
      from holdfast.workflow_step
      where abort and due_at > v_now and due_at <= v_now + ceiling_ms * interval '1 ms'
      order by due_at
      limit 1
    ));
  end if;
  return query select coalesce(v_items, '[]'), extract(epoch from v_next - v_now)::float8 * 1000;
end
$$;

-- Claimed items, with the loss record of those whose last call was lost (K-26) as their last element.
-- planner: no jit, no seqscan
create or replace function holdfast.weigh_lost_steps(items json, lost uuid[], lost_numbers smallint[])
returns json
language plpgsql
as $$
declare
  v_ids text[];
  v_epochs int[];
  v_progresses text[];
begin
  select array_agg(workflow_id || '/' || number), array_agg(lease_epoch), array_agg(compensates::text)
  into v_ids, v_epochs, v_progresses
  from holdfast.workflow_step
  where (workflow_id, number) in (select * from unnest(lost, lost_numbers));
  return (
    with weighed as (
      select * from holdfast.weigh_lost_claims('workflows', v_ids, v_epochs, v_progresses)
    )
    select json_agg(
      case when weighed.id is null then item
        else (item::jsonb || jsonb_build_array(holdfast.lost_claim_json(
          weighed.lost_alone, weighed.lost_shared, weighed.counted, weighed.interrupted, weighed.first_to_try
        )))::json
      end
      order by place
    )
    from json_array_elements(items) with ordinality as claimed (item, place)
    left join weighed on weighed.id = (item ->> 0) || '/' || (item ->> 1)
  );
end
$$;
