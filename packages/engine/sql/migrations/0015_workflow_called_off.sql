-- release: 1
-- online
--
-- Calls that were called off, by the end of their lease: every worker looks for those whose service is gone (W-11).
create index concurrently if not exists workflow_step_called_off on holdfast.workflow_step (due_at) where abort;
