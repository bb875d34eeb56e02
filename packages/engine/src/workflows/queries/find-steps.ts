// Reads the steps of one instance for people, with what each waits for. `handle.ts` calls it.

import type { Codec } from '../../kernel/codec/codec.js'
import { decodeOrRaw } from '../../kernel/codec/decode-or-raw.js'
import type { Notes } from '../../kernel/codec/notes.js'
import type { Failure } from '../../kernel/failure/classify.js'
import type { Executor } from '../../kernel/model/index.js'
import type { CallKind } from '../decide/state.js'
import type { StepStatus } from '../states.js'

/** A step that has been reached, as it is now. */
export interface WorkflowStepRecord {
  readonly name: string
  readonly status: StepStatus
  readonly input: unknown
  readonly output: unknown
  readonly error: { readonly kind: string; readonly code: string; readonly message: string } | null
  /** Calls that have begun. */
  readonly attempts: number
  readonly compensationAttempts: number
  readonly reachedAt: Date
  readonly startedAt: Date | null
  readonly endedAt: Date | null
  /** The queued or running call of the step; null if there is none. */
  readonly queued: {
    readonly handler: string
    readonly kind: CallKind
    /** When it is due; while a worker has claimed it, when the lease ends. */
    readonly dueAt: Date
    readonly priority: number
    /** The priority including the points gained by waiting. */
    readonly shownPriority: number
    readonly leasedBy: string | null
    /** Its handler, or the definition of its instance, is paused: no worker claims it. */
    readonly paused: boolean
    /** No worker has had this handler for two minutes. */
    readonly handlerMissing: boolean
  } | null
  /** Its own dead letter, or that of its compensation. */
  readonly deadLetter: string | null
}

type Queued = NonNullable<WorkflowStepRecord['queued']>

interface Row extends Omit<WorkflowStepRecord, 'error' | 'queued'>, Omit<Queued, 'handler' | 'kind' | 'dueAt'> {
  readonly inputNotes: Notes | null
  readonly outputNotes: Notes | null
  readonly failure: Failure | null
  readonly handler: string | null
  readonly compensates: boolean
  readonly dueAt: Date | null
}

/** In the order in which they were reached. */
export async function findSteps(executor: Executor, codec: Codec, id: string): Promise<WorkflowStepRecord[]> {
  const rows = await executor.run<Row & object>(statement, [id])
  return rows.map((row) => {
    const { inputNotes, outputNotes, failure, handler, compensates, dueAt, ...rest } = row
    const { priority, shownPriority, leasedBy, paused, handlerMissing, ...step } = rest
    const kind = compensates ? 'compensation' : 'step'
    const queued = { kind, priority, shownPriority, leasedBy, handlerMissing, paused } as const
    return {
      ...step,
      input: decodeOrRaw(codec, step.input, inputNotes),
      output: decodeOrRaw(codec, step.output, outputNotes),
      error: failure && { kind: failure.kind, code: failure.code, message: failure.message },
      queued: handler === null || dueAt === null ? null : { handler, dueAt, ...queued },
    }
  })
}

const statement = {
  name: 'workflows.find-steps',
  text: `
    select
      step.name, step.status, step.input, step.input_notes as "inputNotes", step.output, step.output_notes as "outputNotes",
      step.failure, step.attempts, step.compensation_attempts as "compensationAttempts", step.reached_at as "reachedAt",
      step.started_at as "startedAt", step.ended_at as "endedAt", step.handler, step.compensates,
      -- What was set aside because it is paused has waited since it was to begin.
      case when step.due_at = 'infinity' then step.scheduled_at else step.due_at end as "dueAt",
      coalesce(step.priority, 0) as priority, step.leased_by as "leasedBy", letter.id as "deadLetter",
      holdfast.shown_priority(step.priority, step.aging, step.scheduled_at, holdfast.now()) as "shownPriority",
      step.handler is not null
        and coalesce(holdfast.last_seen('workflows'::text, step.handler) < holdfast.now() - interval '2 minutes', true) as "handlerMissing",
      step.handler is not null and holdfast.is_paused(array[
        'handler:' || step.handler, 'definition:' || definition.name, 'domain:' || pg_catalog.split_part(definition.name, '/', 1)
      ]) as paused
    from holdfast.workflow_step as step
    join holdfast.workflow_definition as definition on definition.id = step.definition_id
    left join holdfast.workflow_dead_letter as letter on letter.workflow_id = step.workflow_id and letter.number = step.number
    where step.workflow_id = $1 and step.number >= 0
    order by step.reached_at, step.number`,
}
