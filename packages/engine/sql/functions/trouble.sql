-- revision: 5
-- after: processes-operate
--
-- Work of all models that needs an operator, in one view. It is a view and not a table, because each model writes its failed work in the
-- statement that made it fail, and a copy could differ from it.
--
-- What must not break: each part reads one table and looks up everything else in its list of columns. So the planner can separate the
-- parts: a part of another model is left out, and each condition and the order (`since desc, place desc`) use an index of the part's own
-- table. A join in a part would prevent this, and the test with EXPLAIN would fail.
--
-- `place` distinguishes several troubles of one workflow instance. `work_id` is `id` where ids are UUIDs, so that the primary keys are
-- used. For items it is a constant and not null, because the planner can exclude a constant that is none of the requested ids. `can` is
-- what an operator can do.
create or replace view holdfast.trouble as
select
  'commands'::text as model,
  trouble.domain,
  trouble.type,
  trouble.command_id::text as id,
  (
    select command.key from holdfast.command
    where command.command_id = trouble.command_id and command.domain = trouble.domain
  ) as key,
  null::text as step,
  trouble.error_code as code,
  trouble.error_kind as kind,
  trouble.error_message as message,
  trouble.fingerprint,
  trouble.since,
  (
    select command.attempts from holdfast.command
    where command.command_id = trouble.command_id and command.domain = trouble.domain
  ) as attempts,
  trouble.error_stack as stack,
  array['retry', 'complete', 'cancel'] as can,
  exists (
    select from holdfast.command
    where command.command_id = trouble.command_id and command.domain = trouble.domain and command.effect = 'unknown'
  ) as outcome_unknown,
  false as compensating,
  (
    select assignment.assigned_to from holdfast.trouble_assignment as assignment
    where assignment.model = 'commands'
      and assignment.place = (trouble.command_id::text || '/' || trouble.domain) collate "C"
      and assignment.since = trouble.since
  ) as assigned_to,
  trouble.command_id as work_id,
  (trouble.command_id::text || '/' || trouble.domain) collate "C" as place
from holdfast.command_trouble as trouble
union all
select
  'processes',
  split_part(trouble.type, '/', 1),
  substr(trouble.type, strpos(trouble.type, '/') + 1),
  trouble.id::text,
  (select detail.key from holdfast.process_detail as detail where detail.id = trouble.id),
  trouble.step,
  trouble.error_code,
  trouble.error_kind,
  trouble.error_message,
  trouble.fingerprint,
  trouble.since,
  coalesce((
    select history.attempt
    from holdfast.process_history as history
    where history.process_id = trouble.id
      and history.generation = (select process.generation from holdfast.process where process.id = trouble.id)
      and history.status = 'FAILED'
    order by history.seq desc
    limit 1
  ), 0),
  trouble.error_stack,
  (select holdfast.process_can(process.id, process.generation) from holdfast.process where process.id = trouble.id),
  exists (
    select from holdfast.process
    cross join lateral holdfast.unresolved_calls(process.id, process.generation)
    where process.id = trouble.id
  ),
  (select holdfast.process_is_unwinding(process.id, process.generation) from holdfast.process where process.id = trouble.id),
  (
    select assignment.assigned_to from holdfast.trouble_assignment as assignment
    where assignment.model = 'processes' and assignment.place = trouble.id::text collate "C" and assignment.since = trouble.since
  ),
  trouble.id,
  trouble.id::text collate "C"
from holdfast.process_trouble as trouble
union all
select
  'workflows',
  case when strpos(letter.workflow_name, '/') = 0 then 'default' else split_part(letter.workflow_name, '/', 1) end,
  substr(letter.workflow_name, strpos(letter.workflow_name, '/') + 1),
  letter.workflow_id::text,
  (select workflow.key from holdfast.workflow where workflow.id = letter.workflow_id),
  letter.step,
  letter.failure ->> 'code',
  letter.failure ->> 'kind',
  letter.failure ->> 'message',
  letter.fingerprint,
  letter.created_at,
  (
    select case letter.kind when 'step' then step.attempts else step.compensation_attempts end
    from holdfast.workflow_step as step
    where step.workflow_id = letter.workflow_id and step.number = letter.number
  ),
  letter.failure ->> 'stack',
  case
    -- A fork or a condition has no handler, so there is no result that an operator could give.
    when letter.kind = 'step' and letter.step_type <> 'task' then array['retry', 'cancel']
    when letter.kind = 'step' then array['retry', 'complete', 'cancel', 'skip']
    when exists (
      select from holdfast.workflow
      where workflow.id = letter.workflow_id and workflow.status in ('COMPLETED', 'FAILED', 'CANCELLED', 'ABORTED')
    ) then array['retry', 'complete', 'skip']
    else array['retry', 'complete', 'cancel', 'skip']
  end,
  exists (
    select from holdfast.workflow_step as step
    where step.workflow_id = letter.workflow_id
      and step.number = letter.number
      and case letter.kind when 'step' then step.outcome else step.compensation_outcome end = 'unknown'
  ),
  letter.kind = 'compensation',
  (
    select assignment.assigned_to from holdfast.trouble_assignment as assignment
    where assignment.model = 'workflows' and assignment.place = letter.id::text collate "C" and assignment.since = letter.created_at
  ),
  letter.workflow_id,
  letter.id::text collate "C"
from holdfast.workflow_dead_letter as letter
union all
select
  'dispatch',
  case when strpos(letter.item_type, '/') = 0 then 'default' else split_part(letter.item_type, '/', 1) end collate "default",
  substr(letter.item_type, strpos(letter.item_type, '/') + 1) collate "default",
  letter.item_id collate "default",
  letter.item_id collate "default",
  null,
  letter.error_code,
  -- Only technical failures are retried until they become dead letters.
  'TRANSIENT',
  letter.error_message,
  letter.fingerprint,
  letter.since,
  (
    select item.retry_count from holdfast.dispatch_item as item
    where item.item_type = letter.item_type and item.item_id = letter.item_id
  ),
  null,
  array['retry', 'complete', 'cancel'],
  -- A repeated start has the same id, so the target recognises it.
  false,
  false,
  (
    select assignment.assigned_to from holdfast.trouble_assignment as assignment
    where assignment.model = 'dispatch'
      and assignment.place = (letter.item_type || '/' || letter.item_id) collate "C"
      and assignment.since = letter.since
  ),
  '00000000-0000-0000-0000-000000000000',
  (letter.item_type || '/' || letter.item_id) collate "C"
from holdfast.dispatch_dead_letter as letter;
