import type { Executor, Why } from '../../kernel/model/index.js'
import { type ActiveStep, type FailedForGood, whyOf } from '../why.js'
import type { WorkflowRecord } from './find-instances.js'

/** Why an instance does not continue. */
export async function findWhy(
  executor: Executor,
  { id, domain, type, status, endedAt, error }: WorkflowRecord,
): Promise<Why> {
  const [active, failed] = await Promise.all([
    executor.run<ActiveStep & object>(activeStatement, [id, `${domain}/${type}`, domain]),
    executor.run<FailedForGood & object>(failedStatement, [id]),
  ])
  return whyOf({ status, endedAt, error, active, failed })
}

const activeStatement = {
  name: 'workflows.why-active',
  text: `
    select
      case when step.number >= 0 then step.name end as step, step.handler, step.compensates,
      case when step.compensates then step.compensation_attempts else step.attempts end as attempts,
      coalesce(step.scheduled_at, step.reached_at) as since,
      case when step.due_at < 'infinity' then step.due_at end as "dueAt",
      coalesce(step.due_at > holdfast.now(), false) as "isLater",
      step.leased_by as "leasedBy",
      step.handler is not null and holdfast.is_paused(array[
        'handler:' || step.handler, 'definition:' || $2::text, 'domain:' || $3::text
      ]) as "isPaused",
      coalesce(holdfast.last_seen('workflows', step.handler) > holdfast.now() - interval '150 s', false) as "hasWorker"
    from holdfast.workflow_step as step
    where step.workflow_id = $1 and (step.due_at is not null or step.status = 'WAITING_DECISION')
    order by step.number
    limit 10`,
}
const failedStatement = {
  name: 'workflows.why-failed',
  text: `
    select step, kind, failure ->> 'code'::text as code, failure ->> 'message'::text as message
    from holdfast.workflow_dead_letter
    where workflow_id = $1
    order by created_at, number
    limit 10`,
}
