-- revision: 5
-- after: kernel, processes-find, commands-operate, workflows-find
--
-- What can be paused (K-18): only names that were registered, sent or started before. What must not break: pausing a misspelt name is
-- refused, because it would pause nothing and report success.

-- planner: no seqscan
create or replace function holdfast.is_known_subject(p_kind text, p_name text)
returns boolean
language plpgsql
stable
as $$
declare
  v_queue text;
  v_found boolean;
begin
  if p_kind = 'domain' then
    return exists (select from holdfast.command_queue where domain = p_name)
      or exists (select from holdfast.worker_definition where model = 'processes' and split_part(name, '/', 1) = p_name)
      or exists (select from holdfast.dispatch_config where split_part(item_type, '/', 1) = p_name)
      or cardinality(holdfast.process_types(p_name, null)) > 0
      or exists (select from holdfast.workflow_definition where split_part(name, '/', 1) = p_name);
  end if;
  if p_kind = 'definition' then
    if exists (select from holdfast.worker_definition where model in ('commands', 'processes') and name = p_name)
      or exists (select from holdfast.dispatch_config where item_type = p_name)
      or exists (select from holdfast.process_detail where type = p_name)
      or exists (select from holdfast.workflow_definition where name = p_name)
    then
      return true;
    end if;
  elsif exists (select from holdfast.worker_definition where model = 'workflows' and name = p_name)
    or exists (select from holdfast.workflow_step where handler = p_name and ready)
    or exists (select from holdfast.workflow_step where handler = p_name and not ready and due_at is not null)
    or exists (select from holdfast.worker_definition where model = 'commands' and split_part(name, '/', 2) = p_name)
  then
    return true;
  end if;
  -- Commands that wait for a handler that no worker has ever had.
  for v_queue in
    select queue from holdfast.command_queue
    where to_regclass(format('pgmq.%I', 'q_' || queue)) is not null
      and (p_kind = 'handler' or domain = split_part(p_name, '/', 1))
  loop
    execute format('select exists (select from pgmq.%I where message ->> ''command_type'' = $1)', 'q_' || v_queue)
    into v_found
    using case p_kind when 'handler' then p_name else split_part(p_name, '/', 2) end;
    if v_found then
      return true;
    end if;
  end loop;
  return false;
end
$$;
