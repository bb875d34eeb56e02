-- release: 1
--
-- Types of items belong to a domain, as definitions of the other models do: they are called `domain/type`. Those that are there
-- belong to the domain `default`. Ids of executions that were made before keep their form (functions/dispatch-release.sql), so
-- that an execution which a target elsewhere has started is recognised. The audit trail is not rewritten: it says what was.
alter table holdfast.dispatch_config drop constraint dispatch_config_item_type_check;

-- The triggers would check and audit a change of settings; this is none.
alter table holdfast.dispatch_config disable trigger user;
update holdfast.dispatch_config set item_type = 'default/' || item_type;
alter table holdfast.dispatch_config enable trigger user;
-- Leases of workers that know the old name are over.
update holdfast.dispatch_cycle
set item_type = 'default/' || item_type,
    lease_epoch = lease_epoch + 1,
    due_at = case when leased_at is null then due_at else statement_timestamp() end,
    leased_by = null,
    leased_at = null;
-- The trigger that counts items moves their tallies.
update holdfast.dispatch_item set item_type = 'default/' || item_type;
update holdfast.dispatch_context set item_type = 'default/' || item_type;
update holdfast.dispatch_dead_letter set item_type = 'default/' || item_type;
update holdfast.dispatch_pace set item_type = 'default/' || item_type;
update holdfast.trouble_assignment set place = 'default/' || place where model = 'dispatch';
update holdfast.process set dispatch_type = 'default/' || dispatch_type where dispatch_type is not null;
update holdfast.workflow set dispatch_type = 'default/' || dispatch_type where dispatch_type is not null;

alter table holdfast.dispatch_config
  add constraint dispatch_config_item_type_check check (item_type ~ '^[^/:#]{1,200}/[^/:#]{1,200}$');

-- Processes and workflows are started by one statement (start_dispatched).
drop function if exists holdfast.start_dispatched_processes(jsonb, holdfast.dispatch_config, text[], float8[], timestamptz, jsonb);
drop function if exists holdfast.start_dispatched_workflows(jsonb, holdfast.dispatch_config, text[], float8[], timestamptz, jsonb);
