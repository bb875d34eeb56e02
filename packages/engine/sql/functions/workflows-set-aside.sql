-- revision: 2
-- after: kernel
--
-- Steps of paused workflows (K-18). A claim calls these functions first. They take paused steps out of the order of claims, and put them
-- back when the pause is over, a bounded number with each claim. A step that is set aside is due at infinity and keeps its rank. What
-- must not break: a paused backlog of any size is read once and not with every claim, and no step stays set aside after its definition
-- was resumed.

-- Sets aside paused steps among the first steps of each handler. Returns, for each handler, how many steps may be claimed before the next
-- paused one that is still in the order; null if all were checked.
-- planner: looped, no bitmapscan
create or replace function holdfast.set_aside_workflow_steps(handlers text[], paused int[], p_window int)
returns int[]
language plpgsql
as $$
declare
  v_handler text;
  v_looked int;
  v_paused int;
  v_ids uuid[];
  v_numbers smallint[];
  v_definitions int[];
  v_free int[] := '{}';
begin
  foreach v_handler in array handlers loop
    select
      count(*), count(*) filter (where definition_id = any (paused)),
      array_agg(workflow_id) filter (where definition_id = any (paused) and not in_flight),
      array_agg(number) filter (where definition_id = any (paused) and not in_flight),
      array_agg(distinct definition_id) filter (where definition_id = any (paused) and not in_flight)
    into v_looked, v_paused, v_ids, v_numbers, v_definitions
    from (
      select workflow_id, number, definition_id, in_flight
      from holdfast.workflow_step
      where handler = v_handler and ready
      order by rank, scheduled_at
      limit p_window
    ) as front;
    v_free := v_free || case when v_looked < p_window then null else v_looked - v_paused end;
    continue when v_ids is null;
    insert into holdfast.workflow_set_aside (definition_id)
    select unnest(v_definitions)
    on conflict do nothing;
    update holdfast.workflow_step as step
    set ready = false, due_at = 'infinity'
    from (
      select locked.workflow_id, locked.number
      from unnest(v_ids, v_numbers) as asked (id, number)
      cross join lateral (
        select workflow_id, number
        from holdfast.workflow_step
        where workflow_id = asked.id and number = asked.number and ready and not in_flight
        for no key update skip locked
      ) as locked
    ) as it
    where step.workflow_id = it.workflow_id and step.number = it.number;
  end loop;
  return v_free;
end
$$;

-- Puts steps back whose definitions are not paused any more. They keep their place: rank and time are unchanged.
-- planner: looped
create or replace function holdfast.take_back_workflow_steps(paused int[])
returns void
language plpgsql
as $$
declare
  v_definition int;
begin
  for v_definition in
    select definition_id
    from holdfast.workflow_set_aside
    where definition_id <> all (coalesce(paused, '{}'))
    order by definition_id
    for update skip locked
  loop
    update holdfast.workflow_step as step
    set ready = true, due_at = scheduled_at
    from (
      select workflow_id, number
      from holdfast.workflow_step
      where definition_id = v_definition and due_at = 'infinity'
      order by rank, scheduled_at
      limit 1000
      for no key update skip locked
    ) as it
    where step.workflow_id = it.workflow_id and step.number = it.number;
    if not exists (select from holdfast.workflow_step where definition_id = v_definition and due_at = 'infinity') then
      delete from holdfast.workflow_set_aside where definition_id = v_definition;
    end if;
  end loop;
end
$$;
