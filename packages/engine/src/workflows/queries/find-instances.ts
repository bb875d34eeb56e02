import type { Codec } from '../../kernel/codec/codec.js'
import { decodeOrRaw } from '../../kernel/codec/decode-or-raw.js'
import type { Notes } from '../../kernel/codec/notes.js'
import type { Executor } from '../../kernel/database/executor.js'
import type { Failure } from '../../kernel/failure/classify.js'
import type { InstanceStatus } from '../states.js'

/** An instance as it stands. */
export interface WorkflowRecord {
  readonly id: string
  readonly key: string | null
  readonly workflow: string
  readonly version: number
  readonly status: InstanceStatus
  /** Its definition, or a handler that it waits for, is paused: no worker takes it on. */
  readonly paused: boolean
  readonly input: unknown
  /** What the last step answered; null until the instance is `COMPLETED`. */
  readonly output: unknown
  /** Why it failed, is being rolled back, or waits in the DLQ. */
  readonly error: {
    readonly step: string
    readonly kind: string
    readonly code: string
    readonly message: string
  } | null
  readonly createdAt: Date
  /** When it is to begin; null once it has begun. */
  readonly startAt: Date | null
  readonly updatedAt: Date
  readonly endedAt: Date | null
}

export interface InstanceFilter {
  readonly id?: string
  readonly workflow?: string
  readonly version?: number
  readonly key?: string
  readonly status?: InstanceStatus
  readonly since?: Date
  readonly until?: Date
  readonly limit: number
}

interface Row {
  id: string
  key: string | null
  name: string
  version: number
  status: InstanceStatus
  paused: boolean
  input: unknown
  input_notes: Notes | null
  output: unknown
  output_notes: Notes | null
  failed_step: string | null
  failure: Failure | null
  created_at: Date
  start_at: Date | null
  updated_at: Date
  ended_at: Date | null
}

export async function findInstances(
  executor: Executor,
  codec: Codec,
  filter: InstanceFilter,
): Promise<WorkflowRecord[]> {
  const { limit, ...narrowed } = filter
  const given = Object.entries(narrowed).filter(([, value]) => value !== undefined)
  const rows = await executor.run<Row>(listStatement(given.map(([name]) => name)), [
    limit,
    ...given.map(([, value]) => value),
  ])
  return rows.map((row) => toRecord(row, codec))
}

function toRecord(row: Row, codec: Codec): WorkflowRecord {
  const { failed_step: step, failure } = row
  return {
    id: row.id,
    key: row.key,
    workflow: row.name,
    version: row.version,
    status: row.status,
    paused: row.paused,
    input: decodeOrRaw(codec, row.input, row.input_notes),
    output: decodeOrRaw(codec, row.output, row.output_notes),
    error:
      step === null || failure === null
        ? null
        : { step, kind: failure.kind, code: failure.code, message: failure.message },
    createdAt: row.created_at,
    startAt: row.start_at,
    updatedAt: row.updated_at,
    endedAt: row.ended_at,
  }
}

const columns = `
  id, key, name, version, status, input, input_notes, output, output_notes, failed_step, failure, created_at, updated_at,
  ended_at,
  case when status = 'PENDING' then (
    select scheduled_at from holdfast.workflow_step where workflow_id = workflow.id and number = -1
  ) end as start_at,
  ended_at is null and exists (select from holdfast.pause) and (
    holdfast.is_paused(array['definition:' || name])
    or exists (
      select from holdfast.workflow_step as step
      where step.workflow_id = workflow.id and step.handler is not null and holdfast.is_paused(array['handler:' || step.handler])
    )
  ) as paused`

/** A statement for each set of conditions: with one for all of them PostgreSQL could use no index. */
function listStatement(filters: readonly string[]) {
  const conditions = filters.map((name, place) => conditionOf(name, `$${place + 2}`))
  return {
    name: `workflows.list ${filters.join(' ')}`,
    text: `
      select ${columns}
      from holdfast.workflow
      ${conditions.length === 0 ? '' : `where ${conditions.join(' and ')}`}
      order by created_at desc
      limit $1`,
  }
}

function conditionOf(name: string, value: string): string {
  switch (name) {
    case 'workflow':
      return `name = ${value}`
    case 'since':
      return `created_at >= ${value}`
    case 'until':
      return `created_at < ${value}`
    default:
      return `${name} = ${value}`
  }
}
