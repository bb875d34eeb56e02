-- release: 1
--
-- Settings of workflows that hold for the whole installation, whichever client queues a step. One row.
create table holdfast.workflow_setting (
  is_single boolean primary key default true check (is_single),
  -- Points of priority per second that what waits gains; 0: none (W-12).
  aging float4 not null check (aging between 0 and 1000)
);
insert into holdfast.workflow_setting (aging) values (0.5);

-- Replaced by functions with another signature.
drop function if exists holdfast.release_workflow_steps(uuid[], smallint[], int[], boolean[]);
drop function if exists holdfast.queue_workflow_roots(uuid[], int[], timestamptz[], float4);
