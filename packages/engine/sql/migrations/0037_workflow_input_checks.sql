-- release: 1
--
-- Whether the definition of a workflow has a schema for its input. A start that no program with the definition has checked is then
-- left to a worker that has it (functions/workflows-start.sql).
alter table holdfast.workflow_definition add column checks_input boolean not null default false;
drop function if exists holdfast.queue_workflow_starts(uuid[], int[], timestamptz[]);
