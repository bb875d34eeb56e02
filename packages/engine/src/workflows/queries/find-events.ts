import type { Json } from '../../kernel/codec/type.js'
import { type Executor, readAudit } from '../../kernel/model/index.js'
import { type EventType, eventTypes, type InstanceStatus, type StepStatus } from '../states.js'

/** Something that changed an instance, as it is on record. */
export interface WorkflowEventRecord {
  readonly at: Date
  readonly type: EventType
  readonly step: string | null
  /** The status after it, of the step or, without one, of the instance. */
  readonly status: StepStatus | InstanceStatus | null
  /** Calls so far of the handler that it is about. */
  readonly attempts: number | null
  readonly error: { readonly code: string; readonly message: string } | null
  /** Who acted and why, where a person did. */
  readonly actor: string | null
  readonly reason: string | null
  /** The rest: which side a condition took, which steps were frozen, and so on. */
  readonly detail: { readonly [key: string]: Json }
}

/** Oldest first. They are the entries of the audit trail about it, in the shape of workflows. */
export async function findEvents(executor: Executor, id: string): Promise<WorkflowEventRecord[]> {
  const entries = await readAudit(executor, { id })
  return entries.flatMap(({ at, event, actor, reason, detail }) => {
    const type = eventTypes.find((known) => known === event)
    if (type === undefined) return []
    const {
      step = null,
      status = null,
      attempts = null,
      error = null,
      ...rest
    } = (detail ?? {}) as Partial<Pick<WorkflowEventRecord, 'step' | 'status' | 'attempts' | 'error'>>
    return [{ at, type, step, status, attempts, error, actor, reason, detail: rest }]
  })
}
