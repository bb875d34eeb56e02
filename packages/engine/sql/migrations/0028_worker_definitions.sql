-- release: 1
--
-- Which worker has which definition or handler, in one table for all models. Each worker writes its own rows once a minute,
-- so the table says how many live workers have a definition, and two workers never wait for each other's row.
create table holdfast.worker_definition (
  model text not null check (model in ('commands', 'processes', 'workflows', 'dispatch')),
  -- `domain/type`, or the name of a handler of workflow steps.
  name text not null,
  -- 0 where there are no versions.
  version int not null,
  worker text not null,
  -- Processes: how long the worker leases them for.
  lease_ms int,
  seen_at timestamptz not null,
  primary key (model, name, version, worker)
);

-- What is known stays known. The workers of before are not: one row without a name stands for them.
insert into holdfast.worker_definition (model, name, version, worker, lease_ms, seen_at)
select 'commands', domain || '/' || type, 0, '', null, seen_at from holdfast.command_handler
union all
select 'processes', type, version, '', lease_ms, seen_at from holdfast.process_definition
union all
select 'workflows', handler, 0, '', null, seen_at from holdfast.workflow_handler where seen_at is not null;

-- When it was last told that steps wait for a handler which no worker has.
create table holdfast.missed_handler (
  handler text primary key,
  missed_at timestamptz not null
);
insert into holdfast.missed_handler (handler, missed_at)
select handler, missed_at from holdfast.workflow_handler where missed_at is not null;

drop function if exists holdfast.note_definitions(jsonb);
drop table holdfast.command_handler;
drop table holdfast.process_definition;
drop table holdfast.workflow_handler;

-- All workers that live write their rows before anything acts on the absence of one.
update holdfast.presence set steady_since = statement_timestamp();

insert into holdfast.chore (name, every, due_at)
values ('worker_definitions', interval '1 hour', statement_timestamp());
