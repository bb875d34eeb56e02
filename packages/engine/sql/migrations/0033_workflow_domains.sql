-- release: 1
--
-- Workflows belong to a domain, as commands and processes do: their name is `domain/type`. Those of before are in the domain
-- `default`. Instances keep their ids and their steps, so what is queued, leased, waits for a person or is a dead letter goes on;
-- the hash of a stored definition stays as it is, because the engine leaves the domain `default` out of it.
update holdfast.workflow_definition
set name = 'default/' || name,
    body = body - 'name' || jsonb_build_object('domain', 'default', 'type', name)
where strpos(name, '/') = 0;

update holdfast.workflow set name = 'default/' || name where strpos(name, '/') = 0;
update holdfast.workflow_dead_letter set workflow_name = 'default/' || workflow_name where strpos(workflow_name, '/') = 0;

-- Definitions of processes and commands have a domain already.
update holdfast.pause
set subject = 'definition:default/' || substr(subject, length('definition:') + 1)
where starts_with(subject, 'definition:') and strpos(subject, '/') = 0;

-- Which workflow executes the items of a dispatch, and which have: `order` or `order-v2`.
update holdfast.dispatch_config
set exec_workflow_type = 'default/' || exec_workflow_type
where engine = 'WORKFLOW' and strpos(exec_workflow_type, '/') = 0;
update holdfast.dispatch_cycle
set exec_types = array(
  select case when strpos(type, '/') = 0 then 'default/' || type else type end
  from unnest(exec_types) with ordinality as executed (type, place)
  order by place
)
where item_type in (select item_type from holdfast.dispatch_config where engine = 'WORKFLOW');
