import type { Codec } from '../../kernel/codec/codec.js'
import { decodeOrRaw } from '../../kernel/codec/decode-or-raw.js'
import type { Notes } from '../../kernel/codec/notes.js'
import type { Executor } from '../../kernel/database/executor.js'
import type { Failure } from '../../kernel/failure/classify.js'
import type { CallKind } from '../decide/state.js'
import type { StepStatus } from '../states.js'

/** A step that has been reached, as it stands. */
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
  /** What waits for a handler, or is with one; null where nobody has to do anything. */
  readonly queued: {
    readonly handler: string
    readonly kind: CallKind
    /** When it is due; while a worker has claimed it, when the lease ends. */
    readonly dueAt: Date
    readonly priority: number
    /** The priority with what waiting has added. */
    readonly shownPriority: number
    readonly leasedBy: string | null
    /** Its handler, or the definition of its instance, is paused: no worker takes it on. */
    readonly paused: boolean
    /** No worker has had this handler for two minutes. */
    readonly handlerMissing: boolean
  } | null
  /** Its own dead letter, or that of its compensation. */
  readonly deadLetter: string | null
}

interface Row {
  name: string
  status: StepStatus
  input: unknown
  input_notes: Notes | null
  output: unknown
  output_notes: Notes | null
  failure: Failure | null
  attempts: number
  compensation_attempts: number
  reached_at: Date
  started_at: Date | null
  ended_at: Date | null
  handler: string | null
  compensates: boolean
  due_at: Date | null
  priority: number | null
  shown_priority: number | null
  leased_by: string | null
  handler_missing: boolean
  paused: boolean
  dead_letter: string | null
}

/** In the order in which they were reached. */
export async function findSteps(executor: Executor, codec: Codec, id: string): Promise<WorkflowStepRecord[]> {
  const rows = await executor.run<Row>(statement, [id])
  return rows.map((row) => ({
    name: row.name,
    status: row.status,
    input: decodeOrRaw(codec, row.input, row.input_notes),
    output: decodeOrRaw(codec, row.output, row.output_notes),
    error: row.failure && { kind: row.failure.kind, code: row.failure.code, message: row.failure.message },
    attempts: row.attempts,
    compensationAttempts: row.compensation_attempts,
    reachedAt: row.reached_at,
    startedAt: row.started_at,
    endedAt: row.ended_at,
    queued: toQueued(row),
    deadLetter: row.dead_letter,
  }))
}

function toQueued(row: Row): WorkflowStepRecord['queued'] {
  if (row.handler === null || row.due_at === null) return null
  return {
    handler: row.handler,
    kind: row.compensates ? 'compensation' : 'step',
    dueAt: row.due_at,
    priority: row.priority ?? 0,
    shownPriority: row.shown_priority ?? row.priority ?? 0,
    leasedBy: row.leased_by,
    handlerMissing: row.handler_missing,
    paused: row.paused,
  }
}

const statement = {
  name: 'workflows.find-steps',
  text: `
    select
      step.name, step.status, step.input, step.input_notes, step.output, step.output_notes, step.failure, step.attempts,
      step.compensation_attempts, step.reached_at, step.started_at, step.ended_at, step.handler, step.compensates,
      -- What was set aside because it is paused has waited since it was to begin.
      case when step.due_at = 'infinity' then step.scheduled_at else step.due_at end as due_at,
      step.priority, step.leased_by, letter.id as dead_letter,
      holdfast.shown_priority(step.priority, step.aging, step.scheduled_at, holdfast.now()) as shown_priority,
      step.handler is not null
        and coalesce(holdfast.last_seen('workflows'::text, step.handler) < holdfast.now() - interval '2 minutes', true) as handler_missing,
      step.handler is not null and holdfast.is_paused(array[
        'handler:' || step.handler, 'definition:' || definition.name, 'domain:' || pg_catalog.split_part(definition.name, '/', 1)
      ]) as paused
    from holdfast.workflow_step as step
    join holdfast.workflow_definition as definition on definition.id = step.definition_id
    left join holdfast.workflow_dead_letter as letter on letter.workflow_id = step.workflow_id and letter.number = step.number
    where step.workflow_id = $1 and step.number >= 0
    order by step.reached_at, step.number`,
}
