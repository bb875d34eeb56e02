import { HoldfastError } from '../kernel/errors.js'
import type { AttemptParts } from './attempt.js'
import type { HumanChoice } from './decide/instance-event.js'
import type { ClaimedStep } from './queries/claim-steps.js'

/** What `holdfast.decide` puts into the row that it queues. */
interface QueuedDecision {
  readonly step: string
  readonly decision: HumanChoice
  readonly actor: string
  readonly reason: string
}

/**
 * Applies a decision about a human step that came through SQL. It is removed in the transaction that applies it, so it is
 * applied once, whenever the worker is killed. One that does not fit the step any more is audited and removed.
 */
export async function applyQueuedDecision({ db, events, logger }: AttemptParts, item: ClaimedStep): Promise<void> {
  const { workflowId: id, number, epoch } = item
  const { step, decision, actor, reason } = item.input as QueuedDecision
  try {
    const applied = await db.transaction(async (tx) => {
      const decided = { type: 'decided', step, decision, by: { actor, reason } } as const
      const result = await events.operateWithin(tx, { id, event: decided })
      const removed = await tx.run(removeStatement, [id, number, epoch])
      if (removed.length === 0) throw new HoldfastError('HF_LEASE_LOST', { id: item.id, epoch: String(epoch) })
      return result
    })
    events.committed(applied)
  } catch (error) {
    if (!(error instanceof HoldfastError) || error.code !== 'HF_WRONG_STATUS') throw error
    logger.warn({ err: error, workflow: id, step, decision }, 'a decision was refused')
    await db.run(refuseStatement, [
      id,
      number,
      epoch,
      JSON.stringify({ step, decision, message: error.message }),
      actor,
      reason,
    ])
  }
}

const removeStatement = {
  name: 'workflows.remove-decision',
  text: 'delete from holdfast.workflow_step where workflow_id = $1 and number = $2 and lease_epoch = $3 returning number',
}
const refuseStatement = {
  name: 'workflows.refuse-decision',
  text: `
    with removed as (
      delete from holdfast.workflow_step where workflow_id = $1 and number = $2 and lease_epoch = $3 returning workflow_id
    )
    insert into holdfast.audit (at, model, event, subject_id, detail, actor, reason)
    select holdfast.now(), 'workflows', 'DECISION_REFUSED', workflow_id, $4::text::jsonb, $5, $6
    from removed`,
}
