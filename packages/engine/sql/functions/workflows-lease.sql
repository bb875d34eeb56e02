-- revision: 3
-- after: kernel
--
-- Releases steps that were claimed and not called, for workers that stop; leases.sql has the heartbeat. What must not break: rows are
-- locked in the order of their keys, and rows that another transaction has locked are skipped; a released step is as it was before its
-- claim, except for its epoch, because another worker may have decided on what it saw.

-- Releases steps as if they had not been claimed, except for an event. Returns the steps that were cancelled meanwhile and so must not
-- be queued again: the engine decides about them.
-- planner: no seqscan
create or replace function holdfast.give_back_workflow_steps(ids uuid[], numbers smallint[], epochs int[], freshness boolean[])
returns table (workflow_id uuid, number smallint, epoch int, definition_id int, compensates boolean, attempts int)
language plpgsql
as $$
#variable_conflict use_column
declare
  v_now timestamptz := holdfast.now();
  v_handler text;
begin
  for v_handler in
    with free as (
      select step.workflow_id, step.number, asked.fresh
      from (select * from unnest(ids, numbers, epochs, freshness) as asked (id, number, epoch, fresh) order by id, number) as asked
      cross join lateral (
        select workflow_id, number
        from holdfast.workflow_step
        where workflow_id = asked.id and number = asked.number and lease_epoch = asked.epoch and leased_at is not null
        for no key update skip locked
      ) as step
    ),
    released as (
      update holdfast.workflow_step as step
      set ready = true,
          due_at = v_now,
          leased_by = null,
          leased_at = null,
          -- Another worker may have seen it leased, and would decide on that.
          lease_epoch = step.lease_epoch + 1,
          in_flight = step.in_flight and not free.fresh,
          status = case when free.fresh and step.status = 'RUNNING' then 'PENDING' else step.status end,
          attempts = attempts - (free.fresh and not compensates)::int,
          compensation_attempts = compensation_attempts - (free.fresh and compensates)::int,
          started_at = case when compensates or attempts > 1 or not free.fresh then started_at end
      from free
      where step.workflow_id = free.workflow_id and step.number = free.number
        and (not free.fresh or not step.abort and step.status in ('RUNNING', 'COMPENSATING'))
      returning step.*, free.fresh
    ),
    noted as (
      insert into holdfast.audit (at, model, event, subject_id, detail)
      select v_now, 'workflows', 'step_released', workflow_id, jsonb_build_object('step', name, 'status', status, 'attempts', attempts)
      from released
      where fresh and not compensates and number >= 0
    )
    select distinct handler from released
  loop
    perform holdfast.wake('workflows:' || v_handler);
  end loop;
  return query
    select step.workflow_id, step.number, step.lease_epoch, step.definition_id, step.compensates,
      case when step.compensates then step.compensation_attempts else step.attempts end
    from unnest(ids, numbers, epochs, freshness) as asked (id, number, epoch, fresh)
    join holdfast.workflow_step as step
      on step.workflow_id = asked.id and step.number = asked.number and step.lease_epoch = asked.epoch
    where asked.fresh and step.in_flight and step.leased_at is not null
      and (step.abort or step.status not in ('RUNNING', 'COMPENSATING'));
end
$$;
