-- revision: 4
-- after: kernel
--
-- Stops a type of items whose executions cannot begin (D-16): otherwise one cause would turn all of them into dead letters. Cycles call
-- it with the numbers of starts and failures. What must not break: one execution that begins resets the count, and a type that has
-- stopped stays stopped until an operator resumes it.

-- Counts items in a row that could not begin, and stops the window when there are too many (D-16). Returns the reason if it has just
-- stopped.
create or replace function holdfast.note_dispatch_failures(
  config holdfast.dispatch_config, p_failed int, p_began int, p_reason text
)
returns text
language plpgsql
as $$
declare
  v_now timestamptz := holdfast.now();
  v_cycle holdfast.dispatch_cycle;
begin
  select * into v_cycle from holdfast.dispatch_cycle where item_type = config.item_type;
  if p_failed <= 0 and v_cycle.failures_in_row = 0 or v_cycle.tripped_at is not null then
    return null;
  end if;
  update holdfast.dispatch_cycle
  set failures_in_row = case when p_began > 0 then 0 else failures_in_row + p_failed end
  where item_type = config.item_type
  returning * into v_cycle;
  if config.trip_after is null or v_cycle.failures_in_row < config.trip_after then
    return null;
  end if;
  update holdfast.dispatch_cycle
  set tripped_at = v_now, trip_reason = left(p_reason, 2000)
  where item_type = config.item_type;
  insert into holdfast.audit (at, model, event, subject_name, before, after, detail)
  values (v_now, 'dispatch', 'TRIPPED', config.item_type, '{"tripped": false}', '{"tripped": true}', jsonb_build_object(
    'failuresInRow', v_cycle.failures_in_row, 'tripAfter', config.trip_after, 'reason', left(p_reason, 2000)
  ));
  return left(p_reason, 2000);
end
$$;

-- Whether a worker can begin executions of this definition. Workers record their definitions every minute.
create or replace function holdfast.has_dispatch_worker(p_engine text, p_exec_type text)
returns boolean
language sql
stable
as $$
  select exists (
    select from holdfast.worker_definition
    where model = case p_engine when 'PROCESS' then 'processes' else 'workflows' end
      and (p_engine <> 'PROCESS' or name = p_exec_type)
      and seen_at > holdfast.now() - interval '150 seconds'
  )
$$;
