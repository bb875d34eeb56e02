-- release: 1
--
-- What is known of the effects of a step's calls (K-19), and one setting of workflows for the whole installation.

-- Null while no call has begun. What may have had an effect is undone, and what must not be repeated is asked about.
alter table holdfast.workflow_step
  add column outcome text constraint workflow_step_outcome check (outcome in ('completed', 'refused', 'unknown')),
  add column compensation_outcome text
    constraint workflow_step_compensation_outcome check (compensation_outcome in ('refused', 'unknown'));
