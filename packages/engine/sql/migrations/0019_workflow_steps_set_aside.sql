-- release: 1
--
-- Paused steps of workflows leave the order of claims (K-18).

-- The definitions of workflows of which steps were set aside because they are paused (K-18), and these steps.
create table holdfast.workflow_set_aside (
  definition_id int primary key
);
create index workflow_step_set_aside on holdfast.workflow_step (definition_id, rank, scheduled_at) where due_at = 'infinity';
